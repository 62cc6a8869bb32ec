package jsource_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// waitBriefly calls WaitReconciled, on a connection of its own, with a context that ends soon.
func (w *world) waitBriefly(durable string, r jsource.Receipt) error {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(w.tb.Context(), 100*time.Millisecond)
	defer cancel()
	return jsource.WaitReconciled(ctx, w.srv.Conn(), durable, r)
}

// waiting calls WaitReconciled in a goroutine, on a connection of its own.
func (w *world) waiting(r jsource.Receipt) <-chan error {
	w.tb.Helper()
	result, conn := make(chan error, 1), w.srv.Conn()
	go func() { result <- jsource.WaitReconciled(w.tb.Context(), conn, widgetDurable, r) }()
	return result
}

// askers counts the connections that ask for the durable's state from now on.
func (w *world) askers() func() int {
	w.tb.Helper()
	var mu sync.Mutex
	inboxes := map[string]bool{}
	conn := w.srv.Conn()
	_, err := conn.Subscribe("$JS.API.CONSUMER.INFO."+widgetStream+"."+widgetDurable, func(m *natsgo.Msg) {
		mu.Lock()
		defer mu.Unlock()
		inboxes[m.Reply[:strings.LastIndexByte(m.Reply, '.')]] = true
	})
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		w.tb.Fatal(err)
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(inboxes)
	}
}

func awaitResult(tb testing.TB, result <-chan error) error {
	tb.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(natstest.Patience):
		tb.Fatal("WaitReconciled does not return")
		return nil
	}
}

// S10: it returns when the event, and everything before it, is settled; not earlier.
func TestWaitReconciled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(workers(3), holding("a", "c"))
	r := w.publish("a", "b", "c")
	m.waitDone(t, "b")
	if err := w.waitBriefly(widgetDurable, r[1]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with an earlier one unsettled: %v", err)
	}
	result := w.waiting(r[1])
	m.release("a")
	if err := awaitResult(t, result); err != nil {
		t.Error(err)
	}
	w.expectSaid(r[0].Sequence, "ack of delivery 1")
	w.expectSaid(r[2].Sequence, "")
	m.release("c")
	if err := awaitResult(t, w.waiting(r[2])); err != nil {
		t.Error(err)
	}
}

// S10: what the durable's filter leaves out never moves its ack floor, and is not waited for.
func TestWaitReconciledPastWhatIsFilteredOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(withSource(func(s *widgetSource) { s.Ignore(nats.Deleted) }), holding("b"))
	deleted := func(key string) jsource.Receipt {
		r, err := jsource.PublishDeleted(t.Context(), w.pub, widgets, key, widget{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if err := awaitResult(t, w.waiting(deleted("x"))); err != nil {
		t.Errorf("with nothing else in the stream: %v", err)
	}
	w.publish("a")
	if err := awaitResult(t, w.waiting(deleted("y"))); err != nil {
		t.Errorf("behind one that is reconciled: %v", err)
	}
	if floor := w.info().AckFloor.Stream; floor != 2 {
		t.Errorf("the ack floor is %d, this test wants it below what is waited for", floor)
	}
	w.publish("b")
	m.waitBegun(t, "b")
	z := deleted("z")
	if err := w.waitBriefly(widgetDurable, z); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("behind one that is not reconciled: %v", err)
	}
	m.release("b")
	if err := awaitResult(t, w.waiting(z)); err != nil {
		t.Error(err)
	}
}

// S10: a dead letter among the events waited for is an error that names it; one from before is not.
func TestWaitReconciledFindsDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(doing(func(ctx context.Context, req string) (reconciler.Result, error) {
		if req == "bad" {
			return dying(ctx, req)
		}
		return reconciler.Result{}, nil
	}), holding("gate"), workers(3))
	r := w.publish("bad")
	w.waitSaid(r[0].Sequence, "term of delivery 1")

	r = append(r, w.publish("gate", "bad", "bad", "a")...)
	askers := w.askers()
	result := w.waiting(r[4])
	early := w.waiting(r[1])
	m.waitBegun(t, "gate")
	w.waitSaid(r[3].Sequence, "term of delivery 1")
	natstest.Until(t, "both have looked at the durable", natstest.Patience, func() bool { return askers() >= 2 })
	m.release("gate")
	if err := awaitResult(t, early); err != nil {
		t.Errorf("waiting for one before the dead letters: %v", err)
	}
	err := awaitResult(t, result)
	dead := new(jsource.DeadLetterError)
	if !errors.As(err, &dead) {
		t.Fatalf("got %v, want a DeadLetterError", err)
	}
	if dead.Stream != widgetStream || dead.Durable != widgetDurable || len(dead.Sequences) == 0 ||
		dead.Sequences[len(dead.Sequences)-1] != r[3].Sequence || slices.Contains(dead.Sequences, r[0].Sequence) {
		t.Errorf("got %+v", dead)
	}
	expectError(t, err, widgetDurable, widgetStream, "dead letters instead of reconciled")

	// Asked again, about that very event, and about one after it.
	if err := awaitResult(t, w.waiting(r[3])); !errors.As(err, &dead) {
		t.Errorf("asked about a dead letter afterwards: %v", err)
	}
	if err := awaitResult(t, w.waiting(r[4])); err != nil {
		t.Errorf("asked about one that is reconciled: %v", err)
	}
}

// S10: a durable or a stream that nobody has ever made is an error at once, and so is an empty receipt.
func TestWaitReconciledForWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.publish("a")[0]
	err := jsource.WaitReconciled(t.Context(), w.srv.Conn(), "nobody", r)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("an unknown durable: %v", err)
	}
	expectError(t, err, `durable "nobody"`, "sequence 1", widgetStream)
	err = jsource.WaitReconciled(t.Context(), w.srv.Conn(), "nobody", jsource.Receipt{Stream: "NONE", Sequence: 1})
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("an unknown stream: %v", err)
	}
	expectError(t, jsource.WaitReconciled(t.Context(), w.srv.Conn(), "nobody", jsource.Receipt{}), "receipt is empty")
}

// S10: when the context ends the error says how far the durable is.
func TestWaitReconciledSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(holding("b"), withSource(func(s *widgetSource) { s.MaxAckPending(1) }))
	r := w.publish("a", "b", "c")
	m.waitBegun(t, "b")
	var err error
	natstest.Eventually(t, "it was asked before the context ended", natstest.Patience, func() error {
		if err = w.waitBriefly(widgetDurable, r[2]); strings.Contains(fmt.Sprint(err), "ack floor") {
			return nil
		}
		return err // which it may not be on a busy machine
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	expectError(t, err, widgetDurable, "sequence 3", "ack floor is 1", "1 messages are unsettled", "1 not handed out")
	m.release("b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := jsource.WaitReconciled(ctx, w.srv.Conn(), widgetDurable, r[2]); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// S10: it outlasts a server that is away for a while, at first too.
func TestWaitReconciledOutlastsARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(holding("a"))
	r := w.publish("a")[0]
	m.waitBegun(t, "a")
	conn := w.srv.Conn(natsgo.ReconnectBufSize(-1)) // what is asked while the server is away fails at once
	w.srv.Stop()
	natstest.Until(t, "the connection is lost", natstest.Patience, func() bool { return !conn.IsConnected() })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := jsource.WaitReconciled(ctx, conn, widgetDurable, r); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the server is away: %v", err)
	}
	result := make(chan error, 1)
	go func() { result <- jsource.WaitReconciled(t.Context(), conn, widgetDurable, r) }()
	w.srv.Restart()
	m.release("a")
	if err := awaitResult(t, result); err != nil {
		t.Error(err)
	}
}

// S10: sequences begin anew with a stream that is made anew. Dead letters of the old one say nothing of the
// new one, and an event waited for that went with the old one is an error.
func TestWaitReconciledAcrossStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	do := returning(map[string][]ending{"a": {{err: reconciler.TerminalError(errTest)}}})
	m := w.join(doing(do), holding("b"))
	a := w.publish("a")[0]
	w.waitSaid(a.Sequence, "term of delivery 1")
	b := w.publish("b")[0]
	m.waitBegun(t, "b")
	result := w.waiting(b)
	expectError(t, w.waitBriefly(widgetDurable, b), "1 messages are unsettled")
	if err := w.js.DeleteStream(t.Context(), widgetStream); err != nil {
		t.Fatal(err)
	}
	var again jsource.Receipt
	natstest.Eventually(t, "the stream is made anew", natstest.Patience, func() error {
		var err error
		again, err = jsource.PublishCreated(t.Context(), w.pub, widgets, "a", widget{})
		return err
	})
	if again.Sequence != a.Sequence {
		t.Fatalf("the new stream's first sequence is %d", again.Sequence)
	}
	m.release("b")
	expectError(t, awaitResult(t, result), "made anew")
	w.settled()
	if err := awaitResult(t, w.waiting(again)); err != nil {
		t.Errorf("in the new stream: %v", err)
	}
}
