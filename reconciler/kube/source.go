package kube

import (
	"context"
	"fmt"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/levelstream/jsource/reconciler"
)

// Source makes a source of this module one that a plain controller-runtime controller can watch, with
// WatchesRawSource. A durable source needs its tracker for that:
//
//	acks := queue.NewTracker[reconcile.Request]()
//	src := jsource.Mapped(conn, topic, mapper).Durable("fleet_stage").Track(acks)
//	err := ctrl.NewControllerManagedBy(mgr).Named("fleet_stage").
//		WatchesRawSource(kube.Source(src)).
//		Complete(kube.Wrap(acks, r))
//	err = mgr.Add(kube.Drain(src))
func Source[request comparable](src reconciler.Source[request]) source.TypedSource[request] {
	return &rawSource[request]{src: src}
}

type rawSource[request comparable] struct{ src reconciler.Source[request] }

// String names the source in controller-runtime's logs.
func (s *rawSource[request]) String() string { return fmt.Sprint(s.src) }

// Start implements source.TypedSource.
func (s *rawSource[request]) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[request]) error {
	out := make(chan request)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case req := <-out:
				q.Add(req)
			}
		}
	}()
	return s.src.Start(ctx, out)
}
