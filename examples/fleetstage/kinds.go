package main

import (
	"context"
	"log/slog"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/examples/fleetstage/kargoapi"
	"github.com/levelstream/jsource/examples/fleetstage/rolloutsapi"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/kube"
)

type stageSource = reconciler.Source[reconcile.Request]

// responsible is which Stages this controller works on: those of no shard.
var responsible = ResponsibleFor[client.Object]{IsDefaultController: true}

// stageKind is the primary kind.
func stageKind(mgr manager.Manager) stageSource {
	return kube.Kind(
		mgr.GetCache(),
		client.Object(&kargoapi.Stage{}),
		&handler.EnqueueRequestForObject{},
		responsible,
		IgnoreDelete[client.Object]{},
		predicate.And(
			IsTargetAwareStage(true),
			IsControlFlowStage(false),
			predicate.Or(
				predicate.GenerationChangedPredicate{},
				RefreshRequested{},
				ReverifyRequested{},
				VerificationAbortRequested{},
			),
		),
	)
}

// promotionRequestKind are PromotionRequests whose phase changed, mapped to the Stage that owns them.
func promotionRequestKind(mgr manager.Manager, logger *slog.Logger) stageSource {
	return kube.Kind(
		mgr.GetCache(),
		&kargoapi.PromotionRequest{},
		handler.TypedEnqueueRequestForOwner[*kargoapi.PromotionRequest](
			mgr.GetScheme(),
			mgr.GetRESTMapper(),
			&kargoapi.Stage{},
			handler.OnlyControllerOwner(),
		),
		NewPromotionRequestPhaseChangedPredicate(logger),
	)
}

// freightKinds is Freight, three ways.
func freightKinds(mgr manager.Manager) []stageSource {
	return []stageSource{
		kube.Kind(
			mgr.GetCache(),
			&kargoapi.Freight{},
			&downstreamStageEnqueuer[*kargoapi.Freight]{kargoClient: mgr.GetClient()},
		),
		kube.Kind(
			mgr.GetCache(),
			&kargoapi.Freight{},
			&stageEnqueuerForApprovedFreight[*kargoapi.Freight]{kargoClient: mgr.GetClient()},
		),
		kube.Kind(
			mgr.GetCache(),
			&kargoapi.Freight{},
			&warehouseStageEnqueuer[*kargoapi.Freight]{kargoClient: mgr.GetClient()},
		),
	}
}

// analysisRunKind are AnalysisRuns, mapped to the Stage that they verify.
func analysisRunKind(mgr manager.Manager) stageSource {
	return kube.Kind(
		mgr.GetCache(),
		&rolloutsapi.AnalysisRun{},
		&stageEnqueuerForAnalysisRuns[*rolloutsapi.AnalysisRun]{kargoClient: mgr.GetClient()},
	)
}

// promotionRequestsByStage is the index that finds the PromotionRequests of a Stage in the cache.
const promotionRequestsByStage = "stage"

func indexPromotionRequests(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &kargoapi.PromotionRequest{}, promotionRequestsByStage, func(obj client.Object) []string {
		if r, ok := obj.(*kargoapi.PromotionRequest); ok {
			return []string{r.Spec.Stage}
		}
		return nil
	})
}

// requestsInCache reads the PromotionRequests of a Stage where they are a kind.
func requestsInCache(c client.Reader) func(ctx context.Context, project, stage string) ([]promotionRequestRow, error) {
	return func(ctx context.Context, project, stage string) ([]promotionRequestRow, error) {
		var list kargoapi.PromotionRequestList
		err := c.List(ctx, &list, client.InNamespace(project), client.MatchingFields{promotionRequestsByStage: stage})
		if err != nil {
			return nil, err
		}
		slices.SortFunc(list.Items, func(a, b kargoapi.PromotionRequest) int {
			return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
		})
		var rows []promotionRequestRow
		for i := range list.Items {
			r := &list.Items[i]
			rows = append(rows, promotionRequestRow{Project: project, Stage: stage, Freight: r.Spec.Freight, Phase: r.Status.Phase})
		}
		return rows, nil
	}
}
