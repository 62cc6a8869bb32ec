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

// idleEngine takes requests from its source and drops those that it does not work on, which are all until a
// test lets it work.
type idleEngine struct {
	source *widgetSource

	mu    sync.Mutex
	taken []string
	works func(req string) bool
}

// engineOf starts one, with a source that has this mapper and whatever change changes.
func (w *world) engineOf(m func(context.Context, nats.Event[string, widget]) ([]string, error),
	change ...func(*widgetSource),
) *idleEngine {
	w.tb.Helper()
	tracker := queue.NewTracker[string]()
	e := &idleEngine{
		source: jsource.TryMapped(w.srv.Conn(), widgets, m).Track(tracker).Durable(widgetDurable),
		works:  func(string) bool { return false },
	}
	for _, f := range change {
		f(e.source)
	}
	reconcile := queue.Wrap(tracker, func(context.Context, string) (reconciler.Result, error) {
		return reconciler.Result{}, nil
	})
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
				works := e.works(req)
				e.mu.Unlock()
				if works {
					_, _ = reconcile(ctx, req)
				}
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

// work makes the engine work on the requests for which on returns true.
func (e *idleEngine) work(on func(req string) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.works = on
}

func everything(string) bool { return true }

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
