package kube_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/kube"
)

// message is a message that owes one request.
type message struct {
	queue.Entry[string]
	settled, died int
}

func (m *message) Settled(bool)                     { m.settled++ }
func (m *message) Superseded(queue.Message[string]) {}
func (m *message) Died(string, queue.Death)         { m.died++ }

func TestWrap_KnowsWhatControllerRuntimeReturns(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name          string
		res           reconcile.Result
		err           error
		settled, died int
	}{
		{"success", reconcile.Result{}, nil, 1, 0},
		{"RequeueAfter", reconcile.Result{RequeueAfter: time.Hour}, nil, 1, 0},
		//lint:ignore SA1019 deprecated, and in use
		{"Requeue", reconcile.Result{Requeue: true}, nil, 0, 0},
		{"error", reconcile.Result{}, boom, 0, 0},
		{"TerminalError of controller-runtime", reconcile.Result{}, reconcile.TerminalError(boom), 0, 1},
		{"TerminalError of this module", reconcile.Result{}, reconciler.TerminalError(boom), 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			acks := queue.NewTracker[string]()
			m := &message{}
			acks.NewGroup(queue.GroupOptions{}).Register(&m.Entry, m, []string{"a"})
			r := kube.Wrap(acks, reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) {
				return c.res, c.err
			}))
			res, err := r.Reconcile(t.Context(), "a")
			if res != c.res || !errors.Is(err, c.err) {
				t.Errorf("returned %v, %v", res, err)
			}
			if m.settled != c.settled || m.died != c.died {
				t.Errorf("settled %d and died %d times, want %d and %d", m.settled, m.died, c.settled, c.died)
			}
			if c.died > 0 && !errors.Is(err, reconcile.TerminalError(nil)) {
				t.Errorf("controller-runtime would retry %v", err)
			}
		})
	}
}

type startFunc func(context.Context) error

func (f startFunc) Start(ctx context.Context) error { return f(ctx) }

func TestRunnable_LeaderElection(t *testing.T) {
	var every bool
	c, err := reconciler.New[string]("every").Watch(sourceFunc(func(ctx context.Context, _ chan<- string) error {
		h, _ := reconciler.FromContext(ctx)
		every = h.EveryReplica()
		return errors.New("enough")
	})).Func(func(context.Context, string) (reconciler.Result, error) { return reconciler.Result{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	r := kube.Runnable(c, kube.WithoutLeaderElection())
	if r.(manager.LeaderElectionRunnable).NeedLeaderElection() {
		t.Error("WithoutLeaderElection needs leader election")
	}
	if err := r.Start(t.Context()); err == nil || !every {
		t.Errorf("the source was not told that every replica runs it (error %v)", err)
	}
	if !kube.Runnable(startFunc(nil)).(manager.LeaderElectionRunnable).NeedLeaderElection() {
		t.Error("by default it runs without leader election")
	}
}

type sourceFunc func(context.Context, chan<- string) error

func (f sourceFunc) Start(ctx context.Context, out chan<- string) error { return f(ctx, out) }

type drainFunc func(context.Context) error

func (f drainFunc) Drain(ctx context.Context) error { return f(ctx) }

func TestDrain_WhenTheManagerStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	boom := errors.New("boom")
	var stopped, live bool
	d := kube.Drain(drainFunc(func(dctx context.Context) error {
		stopped, live = ctx.Err() != nil, dctx.Err() == nil
		return boom
	}))
	done := make(chan error, 1)
	go func() { done <- d.Start(ctx) }()
	cancel()
	if err := <-done; !errors.Is(err, boom) || !stopped || !live {
		t.Errorf("error %v, drained after the stop %t, with time left %t", err, stopped, live)
	}
}
