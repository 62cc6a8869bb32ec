package reconciler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
)

func changed(context.Context, string) (result, error) { return result{Changed: true}, nil }

// run runs a controller until nothing is to be done any more and returns what it counted.
func run(t *testing.T, b *reconciler.Builder[string], fn reconciler.Func[string]) reconciler.Stats {
	t.Helper()
	c := build(t, b, fn)
	stop := start(t, c)
	pass(time.Hour)
	stopped(t, stop)
	return c.Stats()
}

func TestN2_CountsWhatOnlyTheResyncCausedAndWhatItChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := run(t, newBuilder(resyncs("a", "b", "c")), func(_ context.Context, req string) (result, error) {
			return result{Changed: req == "b"}, nil
		})
		equal(t, "stats", got, reconciler.Stats{Attempts: 3, ResyncOnly: 3, ResyncChanged: 1})
	})
}

func TestN2_EventsAreNotTheResyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := run(t, newBuilder(events("a", "b")), changed)
		equal(t, "stats", got, reconciler.Stats{Attempts: 2})
	})
}

func TestN2_WhatAnEventAskedForTooIsNotTheResyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := run(t, newBuilder(resyncs("a", "b"), events("b")), changed)
		equal(t, "stats", got, reconciler.Stats{Attempts: 2, ResyncOnly: 1, ResyncChanged: 1})
	})
}

// The resync names a request that a message owes (and whose own push has not come through yet).
func TestN2_WhatAMessageOwesIsNotTheResyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owes := sourceFunc(func(ctx context.Context, _ chan<- string) error {
			m := &message{}
			reconciler.TrackerFrom[string](ctx).NewGroup(queue.GroupOptions{}).Register(&m.Entry, m, []string{"a"})
			return nil
		})
		got := run(t, newBuilder(owes, resyncs("a")), changed)
		equal(t, "stats", got, reconciler.Stats{Attempts: 1})
	})
}

func TestN2_FailedAttemptChangedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		got := run(t, newBuilder(resyncs("a")), func(context.Context, string) (result, error) {
			if attempts++; attempts < 3 {
				return result{Changed: true}, errBroken
			}
			return result{Changed: true}, nil
		})
		equal(t, "stats", got, reconciler.Stats{Attempts: 3, Failed: 2, ResyncOnly: 3, ResyncChanged: 1})
	})
}

func TestN2_AttemptThatWasCutShortChangedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := build(t, newBuilder(resyncs("a")).Grace(0), func(ctx context.Context, _ string) (result, error) {
			<-ctx.Done()
			return result{Changed: true}, ctx.Err()
		})
		stop := start(t, c)
		pass(time.Second)
		stopped(t, stop)
		equal(t, "stats", c.Stats(), reconciler.Stats{Attempts: 1, ResyncOnly: 1})
	})
}

// A request that the resync named once and that polls ever since: those attempts find what no event was
// to tell, and it was not the resync that found it.
func TestN2_PollingIsNotTheResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		got := run(t, newBuilder(resyncs("a")), func(context.Context, string) (result, error) {
			attempts++
			return result{Changed: attempts > 1, RequeueAfter: 25 * time.Minute}, nil
		})
		equal(t, "stats", got, reconciler.Stats{Attempts: 3, ResyncOnly: 1})
	})
}

func TestStats_MayBeAskedForAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newTracked(queue.GroupOptions{})
		block := make(chan struct{})
		c := build(t, newBuilder(src), func(context.Context, string) (result, error) {
			<-block
			return result{}, nil
		})
		equal(t, "stats", c.Stats(), reconciler.Stats{})
		stop := start(t, c)
		src.send("a", "b", "c")
		synctest.Wait()
		src.send("a")
		synctest.Wait()
		equal(t, "stats", c.Stats(), reconciler.Stats{Queued: 2, Owed: 3})
		close(block)
		synctest.Wait()
		stopped(t, stop)
		equal(t, "stats", c.Stats(), reconciler.Stats{Attempts: 4})
	})
}
