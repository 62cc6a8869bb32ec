package queue_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/queue"
)

// TestQueue_NothingIsLostOrDoubledInARace has many add and many work: no request is on two workers at
// once, after each Add an attempt begins, and no attempt knows a cause that nobody gave.
func TestQueue_NothingIsLostOrDoubledInARace(t *testing.T) {
	const adders, workers, requests, each = 4, 4, 3, 5000
	q := queue.New("race", workqueue.NewTypedItemFastSlowRateLimiter[int](time.Nanosecond, time.Nanosecond, 1))
	var added, seen [requests]atomic.Uint64 // seen: what added was when the last attempt began
	var on [requests]atomic.Int32
	var adding, working sync.WaitGroup
	for i := range workers {
		working.Go(func() {
			for n := 0; ; n++ {
				req, cause, ok := q.Get()
				if !ok {
					return
				}
				before := added[req].Load()
				if on[req].Add(1) != 1 {
					t.Errorf("%d is on two workers at once", req)
				}
				if cause != queue.Owed && (req == 0 || cause == 0 || cause&^(queue.Owed|queue.Requeue) != 0) {
					t.Errorf("%d: cause %04b", req, cause)
				}
				if !q.Holds(req) {
					t.Errorf("%d is worked on and not held", req)
				}
				for was := seen[req].Load(); was < before && !seen[req].CompareAndSwap(was, before); {
					was = seen[req].Load()
				}
				switch {
				case req == 0: // is never delayed
				case n%7 == i:
					q.Retry(req)
				case n%11 == i:
					q.RetryAfter(req, time.Microsecond)
				}
				on[req].Add(-1)
				q.Done(req)
			}
		})
	}
	for i := range adders {
		adding.Go(func() {
			for n := range each {
				req := (i + n) % requests
				added[req].Add(1)
				q.Add(req, queue.Owed)
			}
		})
	}
	adding.Wait()
	for req := range requests {
		for seen[req].Load() < added[req].Load() || q.Holds(req) {
			runtime.Gosched()
		}
	}
	q.ShutDown()
	working.Wait()
	equal(t, "requests that hold memory", q.States(), 0)
}
