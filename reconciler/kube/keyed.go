package kube

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/levelstream/jsource/reconciler"
)

// Keyed is a source of the keys that keys returns for each object of a Kubernetes kind that appears, changes or
// goes, for a controller whose requests are not Kubernetes names. Of a change both the old and the new object
// count: what an object no longer refers to has to be looked at too.
func Keyed[object client.Object, K comparable](c cache.Cache, obj object,
	keys func(context.Context, object) []K, p ...predicate.TypedPredicate[object],
) reconciler.Source[K] {
	type queue = workqueue.TypedRateLimitingInterface[K]
	add := func(ctx context.Context, q queue, low bool, objs ...object) {
		seen := map[K]bool{}
		for _, o := range objs {
			for _, key := range keys(ctx, o) {
				if seen[key] {
					continue
				}
				seen[key] = true
				if pq, ok := q.(priorityqueue.PriorityQueue[K]); ok && low {
					pq.AddWithOpts(priorityqueue.AddOpts{Priority: new(handler.LowPriority)}, key)
				} else {
					q.Add(key)
				}
			}
		}
	}
	return Kind(c, obj, handler.TypedFuncs[object, K]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[object], q queue) {
			add(ctx, q, e.IsInInitialList, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[object], q queue) {
			same := e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion()
			add(ctx, q, same, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[object], q queue) {
			add(ctx, q, false, e.Object)
		},
		GenericFunc: func(ctx context.Context, e event.TypedGenericEvent[object], q queue) {
			add(ctx, q, false, e.Object)
		},
	}, p...)
}
