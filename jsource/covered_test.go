package jsource_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// S1: an attempt that runs when a message arrives does not count for it; the request runs again.
func TestAttemptThatRunsAtArrivalDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := make(script)
	defer close(s)
	m := w.join(doing(s.reconcile), workers(2))
	first := w.publish("a")[0]
	m.waitAttempts(t, "a", 1)
	second := w.publish("a")[0]
	m.owed("a", 2)

	s.end(t, success)
	w.waitSaid(first.Sequence, "ack of delivery 1")
	m.waitAttempts(t, "a", 2)
	w.caughtUp()
	w.expectSaid(second.Sequence, "")
	s.end(t, success)
	w.waitSaid(second.Sequence, "ack of delivery 1")
	w.settled()
}

// S1: one attempt that began after several messages arrived counts for all of them.
func TestAttemptCountsForAllThatArrivedBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := make(script)
	defer close(s)
	m := w.join(doing(s.reconcile))
	w.publish("a")
	m.waitAttempts(t, "a", 1)
	w.publish("a", "a", "a")
	m.owed("a", 4)
	s.end(t, success)
	s.end(t, success)
	w.settled() // a third may have begun by now, if the last of them was pushed late; it has not ended
}

// S1: a message that owes two requests is acked when both were reconciled.
func TestMessageWaitsForAllItsRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(mappedBy(w.srv.Conn(), split, nil), workers(2), holding("b"))
	r := w.publish("a+b")[0]
	m.waitDone(t, "a")
	m.waitBegun(t, "b")
	w.caughtUp()
	w.expectSaid(r.Sequence, "")
	m.release("b")
	w.waitSaid(r.Sequence, "ack of delivery 1")
}

// S2: what a message owes is registered before its request is pushed. Whoever takes the request from the
// channel here has reconciled it a moment later; if that attempt did not count, another would have to begin.
func TestRegisteredBeforePushed(t *testing.T) {
	t.Parallel()
	const rounds = 1000
	w := newWorld(t)
	tracker := queue.NewTracker[string]()
	var attempts atomic.Int64
	reconcile := queue.Wrap(tracker, func(context.Context, string) (reconciler.Result, error) {
		attempts.Add(1)
		return reconciler.Result{}, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := make(chan string)
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		for {
			select {
			case key := <-out:
				_, _ = reconcile(ctx, key)
			case <-ctx.Done():
				return
			}
		}
	}()
	src := jsource.Subject(w.srv.Conn(), widgets).Track(tracker).Durable(widgetDurable).AckWait(5 * time.Second)
	if err := src.Start(ctx, out); err != nil {
		t.Fatal(err)
	}
	w.publish(numbered("k", rounds)...)
	w.settled()
	if n := attempts.Load(); n != rounds {
		t.Errorf("%d attempts on %d messages of as many requests: some did not count", n, rounds)
	}
	if err := src.Drain(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	<-taken
}

// Case 24: events that are published before and while a controller starts are reconciled.
func TestEventsDuringStartUpAreReconciled(t *testing.T) {
	t.Parallel()
	const rounds, each = 25, 40
	w := newWorld(t)
	w.join().stop() // the stream is there
	for round := range rounds {
		keys := numbered(fmt.Sprintf("round%02d-", round), each)
		w.publish(keys[:each/2]...)
		m := w.begin(workers(4))
		last := w.publish(keys[each/2:]...)
		m.waitRunning()
		if err := jsource.WaitReconciled(t.Context(), w.js.Conn(), widgetDurable, last[len(last)-1]); err != nil {
			t.Fatal(err)
		}
		m.stop()
		m.wait()
		m.expectOnce(t, keys...)
	}
	w.settled()
}

// S5: what a filter keeps out, and what the mapper maps to nothing, is acked at once, even while the only
// worker is busy. Kinds that are ignored are not even handed out.
func TestNothingOwedIsAckedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.srv.Conn()
	m := w.join(holding("busy"), mappedBy(conn, split, func(s *widgetSource) {
		s.OnCreate(func(created widget) bool { return created.Color != "grey" }).
			OnUpdate(func(old, updated widget) bool { return old.Color != updated.Color }).
			OnDelete(func(widget) bool { return false })
	}))
	busy := w.publish("busy")[0]
	m.waitBegun(t, "busy")

	grey, red := widget{Color: "grey"}, widget{Color: "red"}
	for what, publish := range map[string]func() (jsource.Receipt, error){
		"OnCreate": func() (jsource.Receipt, error) {
			return jsource.PublishCreated(t.Context(), w.pub, widgets, "a", grey)
		},
		"OnUpdate": func() (jsource.Receipt, error) {
			return jsource.PublishUpdated(t.Context(), w.pub, widgets, "a", red, red)
		},
		"OnDelete": func() (jsource.Receipt, error) {
			return jsource.PublishDeleted(t.Context(), w.pub, widgets, "a", red)
		},
		"the mapper": func() (jsource.Receipt, error) {
			return jsource.PublishUpdated(t.Context(), w.pub, widgets, "", red, grey)
		},
	} {
		r, err := publish()
		if err != nil {
			t.Fatal(err)
		}
		w.witness.WaitFor(t, "what "+what+" keeps out is acked", func([]natstest.Settlement) bool {
			return len(w.witness.Verdicts(r.Sequence)) > 0
		})
		w.expectSaid(r.Sequence, "ack of delivery 1")
	}
	w.expectSaid(busy.Sequence, "")
	m.release("busy")
	w.settled()
	m.expectOnce(t, "busy")
}

// Ignore is part of the durable's filter: the server does not send what is ignored.
func TestIgnoredKindsAreNotHandedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(withSource(func(s *widgetSource) { s.Ignore(nats.Updated, nats.Deleted) }))
	if _, err := jsource.PublishDeleted(t.Context(), w.pub, widgets, "a", widget{}); err != nil {
		t.Fatal(err)
	}
	w.publish("b")
	m.waitDone(t, "b")
	w.settled()
	if info := w.info(); info.Delivered.Consumer != 1 || info.Config.FilterSubject != "shop.widgets.created" {
		t.Errorf("%d messages handed out with the filter %q", info.Delivered.Consumer, info.Config.FilterSubject)
	}
}

// S5: the same request twice from one event is owed once.
func TestSameRequestTwiceIsOwedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(mappedBy(w.srv.Conn(), split, nil), holding("a"))
	r := w.publish("a+a+a")[0]
	m.waitBegun(t, "a")
	m.owed("a", 1)
	m.release("a")
	w.waitSaid(r.Sequence, "ack of delivery 1")
}
