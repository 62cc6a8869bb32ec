package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/levelstream/jsource/reconciler"
)

func nothing(context.Context, string) (result, error) { return result{}, nil }

func TestStart_SourcesStartInOrderBeforeAnyAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		noted := func(name string) sourceFunc {
			return func(ctx context.Context, out chan<- string) error {
				happened.add("%s starts", name)
				push(ctx, out, name)
				time.Sleep(time.Second) // were there a worker, it would take the request now
				happened.add("%s started", name)
				return nil
			}
		}
		c := build(t, reconciler.New[string]("order").Watch(noted("1"), noted("2")).Watch(noted("3")),
			func(_ context.Context, req string) (result, error) {
				happened.add("%s", req)
				return result{}, nil
			})
		stop := start(t, c)
		pass(time.Minute)
		stopped(t, stop)
		happened.expect(t,
			"1 starts", "1 started", "2 starts", "2 started", "3 starts", "3 started", "1", "2", "3")
	})
}

// brokenSource cannot start, and has a name.
type brokenSource struct{ sourceFunc }

func (brokenSource) String() string { return "the broken one" }

func TestStart_SourceThatCannotStartStopsTheController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		works := sourceFunc(func(ctx context.Context, out chan<- string) error {
			h, _ := reconciler.FromContext(ctx)
			h.OnStop(func(context.Context) error {
				happened.add("the first is told to stop")
				return nil
			})
			go func() {
				push(ctx, out, "a")
				<-ctx.Done()
				time.Sleep(time.Nanosecond) // only now, so that the order is certain
				happened.add("the first has stopped")
			}()
			return nil
		})
		broken := brokenSource{func(context.Context, chan<- string) error { return errBroken }}
		never := sourceFunc(func(context.Context, chan<- string) error {
			happened.add("a later one was started")
			return nil
		})
		c := build(t, reconciler.New[string]("invoices").Watch(works, broken, never),
			func(context.Context, string) (result, error) {
				happened.add("an attempt")
				return result{}, nil
			})
		err := startFails(t, c)
		if !errors.Is(err, errBroken) {
			t.Errorf("the cause is not seen: %v", err)
		}
		equal(t, "error", fmt.Sprint(err), `controller "invoices": starting source 2 (the broken one): broken`)
		pass(1)
		synctest.Wait()
		happened.expect(t, "the first is told to stop", "the first has stopped")
	})
}

func TestStart_SourceWithoutANameIsNamedByItsType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := sourceFunc(func(context.Context, chan<- string) error { return errBroken })
		err := startFails(t, build(t, reconciler.New[string]("invoices").Watch(broken), nothing))
		equal(t, "error", fmt.Sprint(err),
			`controller "invoices": starting source 1 (reconciler_test.sourceFunc): broken`)
	})
}

// A source that gives up because the controller stops has not failed.
func TestStart_StoppedWhileASourceStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := sourceFunc(func(ctx context.Context, _ chan<- string) error {
			<-ctx.Done()
			return fmt.Errorf("waiting for the server: %w", ctx.Err())
		})
		stop := start(t, build(t, reconciler.New[string]("invoices").Watch(waits), nothing))
		synctest.Wait()
		stopped(t, stop)
	})
}

func TestStart_OnAContextThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := build(t, reconciler.New[string]("invoices").Watch(events("a")),
		func(context.Context, string) (result, error) {
			t.Error("an attempt began")
			return result{}, nil
		})
	equal(t, "error", c.Start(ctx), nil)
}

func TestStart_TwiceIsAnError(t *testing.T) {
	c := build(t, reconciler.New[string]("invoices").Watch(events()), nothing)
	stopped(t, start(t, c))
	err := c.Start(t.Context())
	equal(t, "error", fmt.Sprint(err), `controller "invoices": it was started before; build another one`)
}
