package jsource_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

func keyOf(_ context.Context, e nats.Event[string, widget]) ([]string, error) {
	return []string{e.Key}, nil
}

// unhealthy waits until the source is, and returns why.
func unhealthy(tb testing.TB, src *widgetSource) error {
	tb.Helper()
	natstest.Eventually(tb, "the source is unhealthy", natstest.Patience, func() error {
		if src.Healthy() == nil {
			return errors.New("it is healthy")
		}
		return nil
	})
	return src.Healthy()
}

// lease is an AckWait that heartbeats keep also while other tests are busy: what is given back must not have lapsed.
const lease = 2 * time.Second

// L6: an engine that takes requests and begins no attempt gets one message at first. Its request is pushed
// again, three times, then the message is given back with a delay, the source is unhealthy, and it pulls
// nothing until an attempt begins; then all goes on.
func TestEngineThatDropsRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join().stop() // the durable is there
	pulls := natstest.WatchPulls(t, w.srv.Conn(), widgetStream, widgetDurable)
	pulls.Sync(t)
	before := len(pulls.All())
	const delay = 50 * time.Millisecond
	e := w.engineOf(keyOf, func(s *widgetSource) { s.AckWait(lease).LostDelay(delay) })
	r := w.publish("a", "b", "c", "d", "e")
	natstest.Until(t, "a is pushed", natstest.Patience, func() bool { return len(e.got()) > 0 })
	w.left(1, 4)
	if err := e.source.Healthy(); err != nil {
		t.Errorf("unhealthy already: %v", err)
	}

	w.waitSaid(r[0].Sequence, "nak of delivery 1")
	if got := e.got(); len(got) < 4 || !slices.Equal(got[:4], []string{"a", "a", "a", "a"}) {
		t.Errorf("pushed: %v, want a and three times again", got)
	}
	if d := w.naks(r[0].Sequence)[0]; !about(d, delay) {
		t.Errorf("given back for %v, want about %v", d, delay)
	}
	expectError(t, unhealthy(t, e.source), widgetDurable, "no attempt begins", "does the engine run workers",
		"wrapped")

	// What it was pushed with is pushed on and on, so that there is something to begin.
	pulls.Sync(t)
	n := len(e.got())
	stopped := len(pulls.All())
	for _, p := range pulls.All()[before:] {
		if p.Batch != 1 {
			t.Errorf("before the first attempt: %s", p)
		}
	}
	natstest.Until(t, "it was pushed some more", natstest.Patience, func() bool { return len(e.got()) >= n+5 })
	pulls.Sync(t)
	if now := len(pulls.All()); now != stopped {
		t.Errorf("%d more pulls though no attempt began", now-stopped)
	}
	if info := w.info(); info.Delivered.Consumer != 1 {
		t.Errorf("%d messages handed out", info.Delivered.Consumer)
	}

	e.work(everything)
	w.settled()
	natstest.Eventually(t, "the source is healthy again", natstest.Patience, e.source.Healthy)
	pulls.Sync(t)
	if last := pulls.Last(t); last.Batch < 100 {
		t.Errorf("after the first attempt still %s", last)
	}
	w.expectSaid(r[0].Sequence, "nak of delivery 1, ack of delivery 2")
	w.expectSaid(r[4].Sequence, "ack of delivery 1")
}

// L6: once attempts have begun, a replica holds what there is room for; when its engine stalls then, all of it
// is given back, for another replica to work on.
func TestEngineThatStalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.engineOf(keyOf, func(s *widgetSource) { s.AckWait(lease).LostDelay(50 * time.Millisecond) })
	e.work(everything)
	w.publish("first")
	w.settled()
	e.work(func(string) bool { return false })
	r := w.publish("a", "b", "c")
	w.unsettled(3)
	for _, receipt := range r {
		natstest.Until(t, "it is given back", natstest.Patience, func() bool {
			return len(w.naks(receipt.Sequence)) > 0
		})
	}
	unhealthy(t, e.source)
	// Nor does it get them back because of what it had asked for before.
	n, handed := len(e.got()), w.info().Delivered.Consumer
	natstest.Until(t, "one was pushed some more", natstest.Patience, func() bool { return len(e.got()) >= n+5 })
	if now := w.info().Delivered.Consumer; now != handed {
		t.Errorf("%d more messages handed out though no attempt began", now-handed)
	}
	m := w.join(withSource(func(s *widgetSource) { s.Durable(widgetDurable).AckWait(lease) }))
	w.settled()
	m.expectOnce(t, "a", "b", "c")
	m.stop()
	m.wait()

	// Once it works again, it is given messages again.
	e.work(everything)
	natstest.Eventually(t, "the source is healthy again", natstest.Patience, e.source.Healthy)
	w.publish("d")
	w.settled()
}

// L6: an engine that drops one request and works on the others: the message is given back, and the others are
// served, though nothing else makes attempts begin.
func TestEngineThatDropsOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.engineOf(keyOf, func(s *widgetSource) { s.AckWait(lease).LostDelay(50 * time.Millisecond) })
	e.work(func(req string) bool { return req != "bad" })
	w.publish("good")
	w.settled()
	bad := w.publish("bad")[0]
	natstest.Until(t, "it is pushed", natstest.Patience, func() bool { return slices.Contains(e.got(), "bad") })
	w.publish("later")
	w.witness.WaitFor(t, "it is given back", func([]natstest.Settlement) bool {
		return w.witness.Count(natstest.Nak) > 0
	})
	for _, key := range []string{"x", "y", "z"} {
		r := w.publish(key)[0]
		w.waitSaid(r.Sequence, "ack of delivery 1")
	}
	e.work(everything)
	w.settled()
	if n := len(w.witness.Verdicts(bad.Sequence)); n != 1 {
		t.Errorf("%d verdicts", n)
	}
}

// L6: so is what an engine does not even take from the channel.
func TestEngineThatTakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tracker := queue.NewTracker[string]()
	src := jsource.Subject(w.srv.Conn(), widgets).Track(tracker).Durable(widgetDurable).
		AckWait(lease).LostDelay(50 * time.Millisecond)
	reconcile := queue.Wrap(tracker, func(context.Context, string) (reconciler.Result, error) {
		return reconciler.Result{}, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := make(chan string)
	if err := src.Start(ctx, out); err != nil {
		t.Fatal(err)
	}
	r := w.publish("a", "b")
	w.waitSaid(r[0].Sequence, "nak of delivery 1")
	unhealthy(t, src)

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case req := <-out:
				_, _ = reconcile(ctx, req)
			case <-ctx.Done():
				return
			}
		}
	}()
	w.settled()
	if err := src.Drain(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	<-ended
}
