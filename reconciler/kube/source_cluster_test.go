package kube_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/kube"
)

type plainOptions = controller.TypedOptions[string]

// plain adds a plain controller-runtime controller to a manager that watches src, and its drain. It is named after
// the test.
func (w *world) plain(mgr manager.Manager, src *widgetSource, o plainOptions,
	do func(context.Context, string) (reconcile.Result, error),
) {
	w.tb.Helper()
	w.plainPolicy(mgr, src, o, kube.Outcome, do)
}

func (w *world) plainPolicy(mgr manager.Manager, src *widgetSource, o plainOptions,
	policy queue.Policy[reconcile.Result], do func(context.Context, string) (reconcile.Result, error),
) {
	w.tb.Helper()
	acks := queue.NewTracker[string]()
	o.Reconciler = kube.WrapPolicy(acks, policy, reconcile.TypedFunc[string](do))
	c, err := controller.NewTyped(w.tb.Name(), mgr, o)
	if err != nil {
		w.tb.Fatal(err)
	}
	if err := c.Watch(kube.Source(src.Track(acks))); err != nil {
		w.tb.Fatal(err)
	}
	if err := mgr.Add(kube.Drain(src)); err != nil {
		w.tb.Fatal(err)
	}
}

// A plain controller with its default queue: every message is acked once its request was reconciled after it came.
func TestSource_InAPlainController(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.publish(numbered("before", 20)...)
	release := make(chan struct{})
	var tries attempts
	mgr := w.manager("")
	w.plain(mgr, w.source(), plainOptions{MaxConcurrentReconciles: 4}, func(_ context.Context, req string) (reconcile.Result, error) {
		tries.add(req)
		if req == "held" {
			<-release
		}
		return reconcile.Result{}, nil
	})
	r := w.run(mgr)
	for _, b := range before {
		if v := w.verdict(b); v.Kind != natstest.Ack || v.Deliveries != 1 {
			t.Errorf("what was published before the start: %v", v)
		}
	}
	// S1: an attempt that runs already when the message comes does not count for it.
	first := w.publish("held")[0]
	tries.reach(t, "held", 1)
	second := w.publish("held")[0]
	w.verdict(w.publish("other")[0])
	w.undecided(first)
	w.undecided(second)
	close(release)
	w.verdict(first)
	w.verdict(second)
	if n := tries.of("held"); n != 2 {
		t.Errorf("%d attempts, the one that ran when the second message came counted for it", n)
	}
	w.settled()
	r.stop()
}

// What a Reconciler returns, and what a controller's options do to an attempt, decides about the message.
func TestSource_OutcomesInAPlainController(t *testing.T) {
	t.Parallel()
	failTwice := func(_ context.Context, n int) (reconcile.Result, error) {
		if n <= 2 {
			return reconcile.Result{}, errTest
		}
		return reconcile.Result{}, nil
	}
	for _, tc := range []struct {
		name     string
		options  plainOptions
		policy   queue.Policy[reconcile.Result]
		do       func(ctx context.Context, n int) (reconcile.Result, error) // n: which attempt, from 1
		decided  int                                                        // the attempt that decides
		verdict  natstest.Kind
		attempts int // those that follow even so
	}{
		{name: "error", do: failTwice, decided: 3, verdict: natstest.Ack},
		{
			name: "a queue of one's own", decided: 3, verdict: natstest.Ack, do: failTwice,
			options: plainOptions{NewQueue: func(name string, l workqueue.TypedRateLimiter[string]) workqueue.TypedRateLimitingInterface[string] {
				return workqueue.NewTypedRateLimitingQueueWithConfig(l, workqueue.TypedRateLimitingQueueConfig[string]{Name: name})
			}},
		},
		{
			name: "a rate limiter", decided: 3, verdict: natstest.Ack, do: failTwice,
			options: plainOptions{RateLimiter: workqueue.NewTypedItemFastSlowRateLimiter[string](time.Millisecond, 50*time.Millisecond, 1)},
		},
		{
			name: "TerminalError", decided: 1, verdict: natstest.Term,
			do: func(context.Context, int) (reconcile.Result, error) {
				return reconcile.Result{}, reconcile.TerminalError(errTest)
			},
		},
		{
			name: "TerminalError of this module", decided: 1, verdict: natstest.Term,
			do: func(context.Context, int) (reconcile.Result, error) {
				return reconcile.Result{}, reconciler.TerminalError(errTest)
			},
		},
		{
			name: "Requeue", decided: 3, verdict: natstest.Ack,
			do: func(_ context.Context, n int) (reconcile.Result, error) {
				//lint:ignore SA1019 deprecated, and in use
				return reconcile.Result{Requeue: n < 3}, nil
			},
		},
		{
			name: "RequeueAfter", decided: 1, verdict: natstest.Ack, attempts: 3,
			do: func(_ context.Context, n int) (reconcile.Result, error) {
				if n < 3 {
					return reconcile.Result{RequeueAfter: 10 * time.Millisecond}, nil
				}
				return reconcile.Result{}, nil
			},
		},
		{
			// Case 29: a rate limiter around the Reconciler returns RequeueAfter without having called it.
			name: "RequeueAfter that means later", decided: 3, verdict: natstest.Ack,
			policy: func(res reconcile.Result, err error) queue.Outcome {
				if err == nil && res.RequeueAfter > 0 {
					return queue.Unfinished
				}
				return kube.Outcome(res, err)
			},
			do: func(_ context.Context, n int) (reconcile.Result, error) {
				if n < 3 {
					return reconcile.Result{RequeueAfter: 10 * time.Millisecond}, nil
				}
				return reconcile.Result{}, nil
			},
		},
		{
			name: "ReconciliationTimeout", decided: 2, verdict: natstest.Ack,
			options: plainOptions{ReconciliationTimeout: 200 * time.Millisecond},
			do: func(ctx context.Context, n int) (reconcile.Result, error) {
				if n == 1 {
					<-ctx.Done()
					return reconcile.Result{}, context.Cause(ctx)
				}
				return reconcile.Result{}, nil
			},
		},
		{
			name: "RecoverPanic", decided: 2, verdict: natstest.Ack,
			options: plainOptions{RecoverPanic: new(true)},
			do: func(_ context.Context, n int) (reconcile.Result, error) {
				if n == 1 {
					panic("out of stock")
				}
				return reconcile.Result{}, nil
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var tries attempts
			step := make(chan struct{}, 1) // lets the next attempt on the request end
			mgr := w.manager("")
			policy := tc.policy
			if policy == nil {
				policy = kube.Outcome
			}
			w.plainPolicy(mgr, w.source(), tc.options, policy, func(ctx context.Context, req string) (reconcile.Result, error) {
				if req != "it" {
					return reconcile.Result{}, nil
				}
				n := tries.add(req)
				if n <= tc.decided {
					<-step
				}
				return tc.do(ctx, n)
			})
			run := w.run(mgr)
			r := w.publish("it")[0]
			for n := 1; n <= tc.decided; n++ {
				tries.reach(t, "it", n)
				w.undecided(r)
				step <- struct{}{}
			}
			if v := w.verdict(r); v.Kind != tc.verdict {
				t.Errorf("%v, want %s", v, tc.verdict)
			}
			tries.reach(t, "it", tc.attempts)
			// The one that comes last shows that nothing else is to come.
			w.verdict(w.publish("last")[0])
			if n := tries.of("it"); n != max(tc.decided, tc.attempts) {
				t.Errorf("%d attempts", n)
			}
			w.settled()
			dead := 0
			if tc.verdict == natstest.Term {
				dead = 1
			}
			if n := w.dead(); n != dead {
				t.Errorf("%d dead letters, want %d", n, dead)
			}
			run.stop()
		})
	}
}

// dead is how many dead letters the server has.
func (w *world) dead() int {
	w.tb.Helper()
	s, err := w.js.Stream(context.Background(), widgetStream+"-dead")
	if err != nil {
		w.tb.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

// Case 24: what is published while controllers start is not dropped.
func TestSource_EventsThatRaceWithTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	for i := range rounds {
		var tries attempts
		mgr := w.manager("")
		w.plain(mgr, w.source(), plainOptions{}, func(_ context.Context, req string) (reconcile.Result, error) {
			tries.add(req)
			return reconcile.Result{}, nil
		})
		early, late := fmt.Sprint("early ", i), fmt.Sprint("late ", i)
		receipts := w.publish(early)
		r := w.run(mgr)
		receipts = append(receipts, w.publish(late)...)
		for _, receipt := range receipts {
			w.verdict(receipt)
		}
		if got := tries.all(); got[early] == 0 || got[late] == 0 {
			t.Fatalf("acked, and reconciled are %v only", got)
		}
		r.stop()
	}
	w.settled()
}

// T1: what a plain controller holds when its manager stops is given back, for another one to have it at once.
func TestDrain_GivesBackOnAGracefulStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	started, release := make(chan struct{}, 10), make(chan struct{})
	mgr := w.manager("")
	var done atomic.Int32
	w.plain(mgr, w.source(), plainOptions{MaxConcurrentReconciles: 2}, func(context.Context, string) (reconcile.Result, error) {
		if done.Add(1) == 1 {
			return reconcile.Result{}, nil // the first lets more than one message in
		}
		started <- struct{}{}
		<-release
		return reconcile.Result{}, nil
	})
	a := w.run(mgr)
	w.verdict(w.publish("first")[0])
	receipts := w.publish(numbered("held", 10)...)
	<-started
	<-started
	natstest.Until(t, "it holds all of them", natstest.Patience, func() bool {
		return natstest.ConsumerInfo(t, w.js, widgetStream, widgetDurable).NumAckPending == len(receipts)
	})
	a.cancel()
	w.witness.WaitFor(t, "what was not started is given back", func([]natstest.Settlement) bool {
		return w.witness.Count(natstest.Nak) >= len(receipts)-2
	})
	close(release)
	if err := a.wait(); err != nil {
		t.Error(err)
	}
	w.witness.Sync(t)
	if n := w.witness.Count(natstest.Ack); n != 3 {
		t.Errorf("%d acked, want the first and the two that were running", n)
	}

	var tries attempts
	mgr = w.manager("")
	w.plain(mgr, w.source(), plainOptions{}, func(_ context.Context, req string) (reconcile.Result, error) {
		tries.add(req)
		return reconcile.Result{}, nil
	})
	b := w.run(mgr)
	w.settled() // long before AckWait
	if n := len(tries.all()); n != len(receipts)-2 {
		t.Errorf("the other one had %d of %d", n, len(receipts)-2)
	}
	b.stop()
}
