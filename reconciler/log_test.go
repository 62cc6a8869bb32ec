package reconciler_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/levelstream/jsource/reconciler"
)

type key struct{}

// Every line of an attempt, the engine's and the Reconciler's own, says controller, request and attempt.
func TestLog_EveryLineOfAnAttemptSaysWhichItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logs
		attempts := 0
		c := build(t, newBuilder(events("a")).Logger(l.logger()).Grace(0),
			func(ctx context.Context, _ string) (result, error) {
				reconciler.LoggerFrom(context.WithValue(ctx, key{}, "a context made from it")).Info("working")
				switch attempts++; attempts {
				case 1:
					return result{}, errBroken
				case 2:
					panic("ouch")
				case 3:
					return result{RequeueAfter: time.Second}, nil
				case 4:
					return result{}, errBroken
				case 5:
					return result{RequeueAfter: time.Second}, reconciler.TerminalError(errBroken)
				}
				return result{}, nil
			})
		stop := start(t, c)
		pass(time.Hour)
		stopped(t, stop)

		want := []struct {
			msg     string
			attempt float64
		}{
			{"controller started", 0},
			{"working", 1},
			{"reconcile failed: to be retried", 1},
			{"working", 2},
			{"reconcile failed: to be retried", 2},
			{"working", 3},
			{"working", 1},
			{"reconcile failed: to be retried", 1},
			{"working", 2},
			{"reconcile failed for good: not retried until something asks for it again", 2},
			{"controller stopped", 0},
		}
		lines := l.all(t)
		equal(t, "lines", len(lines), len(want))
		for i, line := range lines {
			equal(t, "message", line["msg"], any(want[i].msg))
			equal(t, "controller", line["controller"], any("invoices"))
			if want[i].attempt > 0 {
				equal(t, "request", line["request"], any("a"))
				equal(t, "attempt", line["attempt"], any(want[i].attempt))
			}
		}
	})
}

func TestLog_SourcesLoggerNamesControllerAndSource(t *testing.T) {
	var l logs
	src := brokenSource{func(ctx context.Context, _ chan<- string) error {
		h, _ := reconciler.FromContext(ctx)
		h.Logger().Info("hello")
		return nil
	}}
	started(t, newBuilder(src).Logger(l.logger()))
	lines := l.with(t, "hello")
	equal(t, "lines", len(lines), 1)
	equal(t, "controller", lines[0]["controller"], any("invoices"))
	equal(t, "source", lines[0]["source"], any("source 1 (the broken one)"))
}

// In a controller-runtime process the context carries the manager's logger.
func TestLog_WithoutALoggerOfItsOwnItIsTheContexts(t *testing.T) {
	var l logs
	ctx, cancel := context.WithCancel(logr.NewContextWithSlogLogger(t.Context(), l.logger()))
	cancel()
	equal(t, "error", build(t, newBuilder(events()), nothing).Start(ctx), nil)
	equal(t, "lines", len(l.with(t, "controller stopped")), 1)
}

func TestLog_OutsideAnAttemptItIsTheDefault(t *testing.T) {
	equal(t, "logger", reconciler.LoggerFrom(t.Context()), slog.Default())
}
