package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/queue"
)

// counted is a message that checks S1 by itself: when it is settled, each of its requests was
// reconciled by an attempt that began after it was registered.
type counted struct {
	queue.Entry[int]
	owes     map[int]uint64 // request → attempts on it that began before Register
	begun    []atomic.Uint64
	settled  atomic.Int32
	tooEarly atomic.Int32
	left     *sync.WaitGroup
}

func (c *counted) Settled(bool) {
	for req, before := range c.owes {
		if c.begun[req].Load() <= before {
			c.tooEarly.Add(1)
		}
	}
	if c.settled.Add(1) == 1 {
		c.left.Done()
	}
}
func (c *counted) Superseded(queue.Message[int]) {}
func (c *counted) Died(req int, _ queue.Death)   { c.Buried(req) }

// TestS2_RegisteredBeforeAWorkerSees has four sources and four workers race: whatever the workers do as
// soon as they see a request, every message is settled, once, and not before its requests were
// reconciled for it.
func TestS2_RegisteredBeforeAWorkerSees(t *testing.T) {
	const sources, workers, requests, each = 4, 4, 8, 500
	tracker := queue.NewTracker[int]()
	q := queue.New("s2", workqueue.DefaultTypedControllerRateLimiter[int]())
	begun := make([]atomic.Uint64, requests)
	reconcile := queue.Wrap(tracker, func(_ context.Context, req int) (int, error) {
		begun[req].Add(1)
		runtime.Gosched()
		return 0, nil
	})

	var working, left sync.WaitGroup
	for range workers {
		working.Go(func() {
			for {
				req, _, ok := q.Get()
				if !ok {
					return
				}
				_, _ = reconcile(t.Context(), req)
				q.Done(req)
			}
		})
	}

	var messages [sources][each]*counted
	var pushing sync.WaitGroup
	left.Add(sources * each)
	for s := range sources {
		g := tracker.NewGroup(queue.GroupOptions{})
		pushing.Go(func() {
			for i := range each {
				m := &counted{owes: map[int]uint64{}, begun: begun, left: &left}
				var reqs []int
				for range 1 + rand.IntN(6) {
					req := rand.IntN(requests)
					reqs = append(reqs, req)
					m.owes[req] = begun[req].Load()
				}
				messages[s][i] = m
				g.Register(&m.Entry, m, reqs)
				for _, req := range reqs {
					q.Add(req, queue.Owed)
				}
			}
		})
	}
	pushing.Wait()
	settled := make(chan struct{})
	go func() {
		left.Wait()
		close(settled)
	}()
	select {
	case <-settled:
	case <-time.After(time.Minute):
		t.Fatal("some messages are never settled")
	}
	q.ShutDown()
	working.Wait()
	for s := range messages {
		for i, m := range messages[s] {
			name := fmt.Sprintf("message %d of source %d: ", i, s)
			equal(t, name+"times settled", m.settled.Load(), 1)
			equal(t, name+"requests settled too early", m.tooEarly.Load(), 0)
		}
	}
	equal(t, "requests that hold memory", tracker.Records(), 0)
	equal(t, "requests that the queue knows", q.States(), 0)
}

// No attempt may see a message that owes only some of its requests yet: it could settle it.
func TestS2_RegisterIsAllOrNothing(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	var running sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					attempt(tracker, "r0", queue.Success, nil)
				}
			}
		})
	}
	var reqs []string
	for i := range 500 {
		reqs = append(reqs, fmt.Sprint("r", i))
	}
	for range 100 {
		m := register(g, "m", reqs...)
		runtime.Gosched()
		m.expect(t)
		m.Forget()
	}
	close(stop)
	running.Wait()
}
