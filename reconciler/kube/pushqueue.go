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

	mu   sync.Mutex
	busy bool // a request was taken out and is not pushed yet
}

func newPushQueue[request comparable](ctx context.Context, out chan<- request) *pushQueue[request] {
	q := &pushQueue[request]{PriorityQueue: priorityqueue.New[request]("")}
	go func() {
		<-ctx.Done()
		q.ShutDown()
	}()
	go q.forward(ctx, out)
	return q
}

// forward pushes what is due.
func (q *pushQueue[request]) forward(ctx context.Context, out chan<- request) {
	for {
		req, priority, shutdown := q.GetWithPriority()
		if shutdown {
			return
		}
		q.setBusy(true)
		if priority >= 0 || !reconciler.PushLow(ctx, req) {
			select {
			case out <- req:
			case <-ctx.Done():
			}
		}
		q.Forget(req)
		q.Done(req)
		q.setBusy(false)
	}
}

func (q *pushQueue[request]) setBusy(busy bool) {
	q.mu.Lock()
	q.busy = busy
	q.mu.Unlock()
}

// pushed waits until all that is due has been pushed.
func (q *pushQueue[request]) pushed(ctx context.Context) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for idle := 0; idle < 2; {
		q.mu.Lock()
		busy := q.busy
		q.mu.Unlock()
		if busy || q.Len() > 0 {
			idle = 0
		} else {
			idle++ // between being taken out and being busy a request is in neither
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
