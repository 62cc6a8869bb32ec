package main

import (
	"log/slog"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/levelstream/jsource/examples/fleetstage/kargoapi"
)

// ResponsibleFor lets through the objects of a shard and, for the default controller, those of none.
type ResponsibleFor[T client.Object] struct {
	IsDefaultController bool
	ShardName           string
}

// Create implements predicate.TypedPredicate.
func (r ResponsibleFor[T]) Create(e event.TypedCreateEvent[T]) bool { return r.is(e.Object) }

// Update implements predicate.TypedPredicate.
func (r ResponsibleFor[T]) Update(e event.TypedUpdateEvent[T]) bool { return r.is(e.ObjectNew) }

// Delete implements predicate.TypedPredicate.
func (r ResponsibleFor[T]) Delete(e event.TypedDeleteEvent[T]) bool { return r.is(e.Object) }

// Generic implements predicate.TypedPredicate.
func (r ResponsibleFor[T]) Generic(e event.TypedGenericEvent[T]) bool { return r.is(e.Object) }

func (r ResponsibleFor[T]) is(obj T) bool {
	shard, labelled := obj.GetLabels()[kargoapi.ShardLabel]
	return labelled && shard == r.ShardName || !labelled && r.IsDefaultController
}

// IgnoreDelete lets no deletion through: there is nothing left to reconcile.
type IgnoreDelete[T client.Object] struct{ predicate.TypedFuncs[T] }

// Delete implements predicate.TypedPredicate.
func (IgnoreDelete[T]) Delete(event.TypedDeleteEvent[T]) bool { return false }

// IsTargetAwareStage lets through the Stages that choose Targets, or those that do not.
func IsTargetAwareStage(want bool) predicate.Predicate {
	return stages(func(s *kargoapi.Stage) bool { return len(s.Spec.TargetSelectors) > 0 == want })
}

// IsControlFlowStage lets through the Stages that only pass Freight on, or those that do not.
func IsControlFlowStage(want bool) predicate.Predicate {
	return stages(func(s *kargoapi.Stage) bool { return len(s.Spec.PromotionSteps) == 0 == want })
}

func stages(pass func(*kargoapi.Stage) bool) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool {
		s, ok := obj.(*kargoapi.Stage)
		return ok && pass(s)
	})
}

// RefreshRequested lets an update through that asks for a reconcile.
type RefreshRequested struct{ predicate.Funcs }

// Update implements predicate.Predicate.
func (RefreshRequested) Update(e event.UpdateEvent) bool {
	return asked(e, kargoapi.AnnotationRefresh)
}

// ReverifyRequested lets an update through that asks for what is there to be verified again.
type ReverifyRequested struct{ predicate.Funcs }

// Update implements predicate.Predicate.
func (ReverifyRequested) Update(e event.UpdateEvent) bool {
	return asked(e, kargoapi.AnnotationReverify)
}

// VerificationAbortRequested lets an update through that asks for a verification to end.
type VerificationAbortRequested struct{ predicate.Funcs }

// Update implements predicate.Predicate.
func (VerificationAbortRequested) Update(e event.UpdateEvent) bool {
	return asked(e, kargoapi.AnnotationAbortVerification)
}

func asked(e event.UpdateEvent, annotation string) bool {
	value := e.ObjectNew.GetAnnotations()[annotation]
	return value != "" && value != e.ObjectOld.GetAnnotations()[annotation]
}

// promotionRequestPhaseChanged lets an update of a PromotionRequest through that changes its phase.
type promotionRequestPhaseChanged struct {
	predicate.TypedFuncs[*kargoapi.PromotionRequest]
	logger *slog.Logger
}

// NewPromotionRequestPhaseChangedPredicate returns that predicate.
func NewPromotionRequestPhaseChangedPredicate(logger *slog.Logger) predicate.TypedPredicate[*kargoapi.PromotionRequest] {
	return promotionRequestPhaseChanged{logger: logger}
}

// Update implements predicate.TypedPredicate.
func (p promotionRequestPhaseChanged) Update(e event.TypedUpdateEvent[*kargoapi.PromotionRequest]) bool {
	if e.ObjectOld.Status.Phase == e.ObjectNew.Status.Phase {
		return false
	}
	p.logger.Debug("the phase of a PromotionRequest changed", "request", e.ObjectNew.Name, "phase", e.ObjectNew.Status.Phase)
	return true
}
