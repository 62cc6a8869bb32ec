package main

import (
	"context"
	"slices"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/examples/fleetstage/kargoapi"
	"github.com/levelstream/jsource/examples/fleetstage/rolloutsapi"
)

type (
	workQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	// noEvents handles no event; what embeds it handles some.
	noEvents[T client.Object] = handler.TypedFuncs[T, reconcile.Request]
)

// downstreamStageEnqueuer enqueues, when a Stage has verified Freight, the Stages that take it from there.
type downstreamStageEnqueuer[T client.Object] struct {
	noEvents[T]
	kargoClient client.Reader
}

// Update implements handler.TypedEventHandler.
func (d *downstreamStageEnqueuer[T]) Update(ctx context.Context, e event.TypedUpdateEvent[T], q workQueue) {
	old, updated := freight(e.ObjectOld), freight(e.ObjectNew)
	if old == nil || updated == nil {
		return
	}
	verified := added(old.Status.VerifiedIn, updated.Status.VerifiedIn)
	enqueueStages(ctx, d.kargoClient, updated.Namespace, q, func(r kargoapi.FreightRequest) bool {
		return r.Origin == updated.Origin && slices.ContainsFunc(verified, func(stage string) bool { return slices.Contains(r.Stages, stage) })
	})
}

// stageEnqueuerForApprovedFreight enqueues, when Freight is approved for a Stage, that Stage.
type stageEnqueuerForApprovedFreight[T client.Object] struct {
	noEvents[T]
	kargoClient client.Reader
}

// Update implements handler.TypedEventHandler.
func (*stageEnqueuerForApprovedFreight[T]) Update(_ context.Context, e event.TypedUpdateEvent[T], q workQueue) {
	old, updated := freight(e.ObjectOld), freight(e.ObjectNew)
	if old == nil || updated == nil {
		return
	}
	for _, stage := range added(old.Status.ApprovedFor, updated.Status.ApprovedFor) {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: updated.Namespace, Name: stage}})
	}
}

// warehouseStageEnqueuer enqueues, when there is new Freight, the Stages that take it straight from its Warehouse.
type warehouseStageEnqueuer[T client.Object] struct {
	noEvents[T]
	kargoClient client.Reader
}

// Create implements handler.TypedEventHandler.
func (w *warehouseStageEnqueuer[T]) Create(ctx context.Context, e event.TypedCreateEvent[T], q workQueue) {
	if f := freight(e.Object); f != nil {
		enqueueStages(ctx, w.kargoClient, f.Namespace, q, func(r kargoapi.FreightRequest) bool {
			return r.Direct && r.Origin == f.Origin
		})
	}
}

// stageEnqueuerForAnalysisRuns enqueues, when the phase of an AnalysisRun changes, the Stage that it verifies.
type stageEnqueuerForAnalysisRuns[T client.Object] struct {
	noEvents[T]
	kargoClient client.Reader
}

// Update implements handler.TypedEventHandler.
func (*stageEnqueuerForAnalysisRuns[T]) Update(_ context.Context, e event.TypedUpdateEvent[T], q workQueue) {
	old, _ := any(e.ObjectOld).(*rolloutsapi.AnalysisRun)
	updated, _ := any(e.ObjectNew).(*rolloutsapi.AnalysisRun)
	if old != nil && updated != nil && old.Status.Phase != updated.Status.Phase {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: updated.Namespace, Name: updated.Spec.Stage}})
	}
}

func freight[T client.Object](obj T) *kargoapi.Freight {
	f, _ := any(obj).(*kargoapi.Freight)
	return f
}

// added are the keys that are true in updated and were not in old.
func added(old, updated map[string]bool) []string {
	var keys []string
	for key, is := range updated {
		if is && !old[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

// enqueueStages enqueues the Stages of a namespace that request Freight in a way that match approves of. A handler
// cannot fail: the event is lost if the list fails, and the cache's resync brings it back hours later.
func enqueueStages(ctx context.Context, c client.Reader, namespace string, q workQueue, match func(kargoapi.FreightRequest) bool) {
	var list kargoapi.StageList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		log.FromContext(ctx).Error(err, "listing Stages for an event of Freight")
		return
	}
	for i := range list.Items {
		if slices.ContainsFunc(list.Items[i].Spec.RequestedFreight, match) {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
}
