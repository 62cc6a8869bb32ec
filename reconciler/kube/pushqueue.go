package kube

import (
	"context"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/levelstream/jsource/reconciler"
)

// pushQueue is the queue that event handlers are handed: controller-runtime's own, so that delays, backoff and
// priorities work as they do there, from which everything that is due goes to the controller at once.
type pushQueue[request comparable] struct {
	priorityqueue.PriorityQueue[request]

	mu      sync.Mutex
	first   map[request]struct{} // of the first list: added without a delay and not taken out yet
	all     bool                 // the first list is complete: nothing is added to first any more
	pushing bool                 // one of them was taken out and is not pushed yet
	done    chan struct{}        // closed when the first list has been pushed
}

func newPushQueue[request comparable](ctx context.Context, out chan<- request) *pushQueue[request] {
	q := &pushQueue[request]{
		PriorityQueue: priorityqueue.New[request](""),
		first:         map[request]struct{}{},
		done:          make(chan struct{}),
	}
	go func() {
		<-ctx.Done()
		q.ShutDown()
	}()
	go q.forward(ctx, out)
	return q
}

// Add implements workqueue.TypedInterface, like those that follow: they all add by AddWithOpts.
func (q *pushQueue[request]) Add(req request) { q.AddWithOpts(priorityqueue.AddOpts{}, req) }

func (q *pushQueue[request]) AddAfter(req request, d time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: d}, req)
}

func (q *pushQueue[request]) AddRateLimited(req request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, req)
}

func (q *pushQueue[request]) AddWithOpts(o priorityqueue.AddOpts, reqs ...request) {
	q.mu.Lock()
	if !q.all && o.After <= 0 && !o.RateLimited {
		for _, req := range reqs {
			q.first[req] = struct{}{}
		}
	}
	q.mu.Unlock()
	q.PriorityQueue.AddWithOpts(o, reqs...)
}

// forward pushes what is due.
func (q *pushQueue[request]) forward(ctx context.Context, out chan<- request) {
	for {
		req, priority, shutdown := q.GetWithPriority()
		if shutdown {
			return
		}
		q.mu.Lock()
		_, q.pushing = q.first[req]
		delete(q.first, req)
		q.mu.Unlock()
		if priority >= 0 || !reconciler.PushLow(ctx, req) {
			select {
			case out <- req:
			case <-ctx.Done():
			}
		}
		q.Forget(req)
		q.Done(req)
		q.mu.Lock()
		q.pushing = false
		q.look()
		q.mu.Unlock()
	}
}

// pushed waits until all that the handler has added so far, and that was to wait for nothing, has been pushed.
// It is called once.
func (q *pushQueue[request]) pushed(ctx context.Context) error {
	q.mu.Lock()
	q.all = true
	q.look()
	q.mu.Unlock()
	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look closes done when the first list has been pushed. The caller holds mu.
func (q *pushQueue[request]) look() {
	if q.all && len(q.first) == 0 && !q.pushing && q.first != nil {
		q.first = nil
		close(q.done)
	}
}
