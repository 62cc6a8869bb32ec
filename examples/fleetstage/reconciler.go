package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/examples/fleetstage/kargoapi"
	"github.com/levelstream/jsource/examples/fleetstage/rolloutsapi"
	"github.com/levelstream/jsource/reconciler"
)

// FleetStageReconciler keeps the status of each Stage in line with its PromotionRequests, Freight and Targets.
type FleetStageReconciler struct {
	client   client.Client
	requests func(ctx context.Context, project, stage string) ([]promotionRequestRow, error) // the oldest first
	db       *database                                                                       // with the Targets; nil: there are none
	rollouts bool                                                                            // AnalysisRuns count
}

// Reconcile reads all there is to one Stage and writes what it means.
func (r *FleetStageReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconciler.Result, error) {
	var stage kargoapi.Stage
	if err := r.client.Get(ctx, req.NamespacedName, &stage); err != nil {
		return reconciler.Result{}, client.IgnoreNotFound(err)
	}
	if len(stage.Spec.TargetSelectors) == 0 || len(stage.Spec.PromotionSteps) == 0 ||
		!responsible.is(&stage) {
		return reconciler.Result{}, nil // events of Freight and of requests do not look at that
	}
	status := kargoapi.StageStatus{
		ObservedGeneration: stage.Generation,
		HandledRefresh:     stage.Annotations[kargoapi.AnnotationRefresh],
	}
	for _, sync := range []func(context.Context, *kargoapi.Stage, *kargoapi.StageStatus) error{
		r.syncPromotionRequests, r.syncFreight, r.syncTargets, r.syncVerification,
	} {
		if err := sync(ctx, &stage, &status); err != nil {
			return reconciler.Result{}, err
		}
	}
	if reflect.DeepEqual(status, stage.Status) {
		return reconciler.Result{}, nil
	}
	updated := stage.DeepCopy()
	updated.Status = status
	// An update, not a patch: it fails, and is tried again, when what was read is not the latest.
	if err := r.client.Status().Update(ctx, updated); err != nil && !apierrors.IsNotFound(err) {
		return reconciler.Result{}, fmt.Errorf("writing the status of Stage %s: %w", req, err)
	}
	return reconciler.Result{Changed: true}, nil
}

func (r *FleetStageReconciler) syncPromotionRequests(ctx context.Context, stage *kargoapi.Stage, status *kargoapi.StageStatus) error {
	rows, err := r.requests(ctx, stage.Namespace, stage.Name)
	if err != nil {
		return fmt.Errorf("listing the promotion requests of Stage %s: %w", stage.Name, err)
	}
	for _, row := range rows {
		if !kargoapi.Terminal(row.Phase) {
			status.OpenRequests++
		}
		status.LastRequest = row.Freight + " " + row.Phase
	}
	return nil
}

func (r *FleetStageReconciler) syncFreight(ctx context.Context, stage *kargoapi.Stage, status *kargoapi.StageStatus) error {
	var list kargoapi.FreightList
	if err := r.client.List(ctx, &list, client.InNamespace(stage.Namespace)); err != nil {
		return fmt.Errorf("listing Freight: %w", err)
	}
	for i := range list.Items {
		f := &list.Items[i]
		available := f.Status.ApprovedFor[stage.Name] || slices.ContainsFunc(stage.Spec.RequestedFreight, func(req kargoapi.FreightRequest) bool {
			return req.Origin == f.Origin &&
				(req.Direct || slices.ContainsFunc(req.Stages, func(s string) bool { return f.Status.VerifiedIn[s] }))
		})
		if available {
			status.AvailableFreight = append(status.AvailableFreight, f.Name)
		}
	}
	slices.Sort(status.AvailableFreight)
	return nil
}

func (r *FleetStageReconciler) syncTargets(_ context.Context, stage *kargoapi.Stage, status *kargoapi.StageStatus) error {
	if r.db == nil {
		return nil
	}
	selectors, err := targetSelectorsForStage(stage)
	if err != nil {
		return reconciler.TerminalError(err) // only a change of the Stage can mend that
	}
	status.Targets = r.db.Targets(stage.Namespace, func(labels map[string]string) bool { return anySelectorMatches(selectors, labels) })
	return nil
}

func (r *FleetStageReconciler) syncVerification(ctx context.Context, stage *kargoapi.Stage, status *kargoapi.StageStatus) error {
	if !r.rollouts {
		return nil
	}
	var list rolloutsapi.AnalysisRunList
	if err := r.client.List(ctx, &list, client.InNamespace(stage.Namespace)); err != nil {
		return fmt.Errorf("listing AnalysisRuns: %w", err)
	}
	for _, run := range list.Items {
		if run.Spec.Stage == stage.Name {
			status.Verification = run.Status.Phase
		}
	}
	return nil
}
