package jsource_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// idleEngine takes requests from its source and works on none: it drops them, unless a test reconciles one.
type idleEngine struct {
	source    *widgetSource
	reconcile reconciler.Func[string] // wrapped

	mu    sync.Mutex
	taken []string
}

// engineOf starts one, with a source that has this mapper and whatever change changes.
func (w *world) engineOf(m func(context.Context, nats.Event[string, widget]) ([]string, error),
	change ...func(*widgetSource),
) *idleEngine {
	w.tb.Helper()
	tracker := queue.NewTracker[string]()
	e := &idleEngine{
		source: jsource.TryMapped(w.srv.Conn(), widgets, m).Track(tracker).Durable(widgetDurable),
		reconcile: queue.Wrap(tracker, func(context.Context, string) (reconciler.Result, error) {
			return reconciler.Result{}, nil
		}),
	}
	for _, f := range change {
		f(e.source)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan string)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case req := <-out:
				e.mu.Lock()
				e.taken = append(e.taken, req)
				e.mu.Unlock()
			case <-ctx.Done():
				return
			}
		}
	}()
	w.tb.Cleanup(func() {
		e.drain(w.tb)
		cancel()
		<-ended
	})
	if err := e.source.Start(ctx, out); err != nil {
		w.tb.Fatal(err)
	}
	return e
}

// drain drains the source.
func (e *idleEngine) drain(tb testing.TB) {
	tb.Helper()
	if err := e.source.Drain(context.Background()); err != nil {
		tb.Errorf("Drain: %v", err)
	}
}

// got is what the source has pushed so far.
func (e *idleEngine) got() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.taken)
}
