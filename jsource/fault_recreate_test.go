package jsource_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/reconciler/list"
)

// Case 32: ten messages are in reconcile when the stream is deleted and made again; it counts from 1 again, so
// ten new messages have the same sequences. What the old attempts end in settles nothing of the new stream,
// and all ten new ones are reconciled.
func TestRecreatedStreamIsReconciled(t *testing.T) {
	w := newWorld(t)
	before, after := numbered("before", 10), numbered("after", 10)
	a := w.join(workers(20), holding(append(before, after...)...))
	w.publish(before...)
	a.waitBegun(t, before...)

	if err := w.js.DeleteStream(t.Context(), widgetStream); err != nil {
		t.Fatal(err)
	}
	receipts := w.publish(after...) // the first of which makes it again
	if last := receipts[9].Sequence; last != 10 {
		t.Fatalf("the last new sequence is %d, want 10", last)
	}
	a.waitBegun(t, after...)
	a.release(before...)
	a.waitDone(t, before...)
	// Behind whatever the end of those attempts may have said of the new messages.
	w.publish("then")
	a.waitDone(t, "then")
	w.unsettled(10)
	a.release(after...)
	w.settled()
	a.waitDone(t, after...)
	for _, r := range receipts {
		w.expectAcksAfter(r.Sequence, a, after[r.Sequence-1])
	}
}

// expectAcksAfter checks that the message of the present stream was acked, and only after its reconcile.
func (w *world) expectAcksAfter(seq uint64, m *member, key string) {
	w.tb.Helper()
	w.witness.Sync(w.tb)
	var ended time.Time
	for _, run := range m.all() {
		if run.req == key && !run.ended.IsZero() {
			ended = run.ended
		}
	}
	stream, err := w.js.Stream(w.tb.Context(), widgetStream)
	if err != nil {
		w.tb.Fatal(err)
	}
	msg, err := stream.GetMsg(w.tb.Context(), seq)
	if err != nil {
		w.tb.Fatal(err)
	}
	acks := 0
	for _, s := range w.witness.Verdicts(seq) {
		if !s.Stored.Equal(msg.Time) {
			continue // of the stream that is gone
		}
		if acks++; s.At.Before(ended) {
			w.tb.Errorf("%v, before the reconcile of %s had ended", s, key)
		}
	}
	if acks == 0 {
		w.tb.Errorf("sequence %d was never acked", seq)
	}
}

// Case 33, and L4: one replica has crashed holding ten messages, another has settled the ten behind them, and
// the durable is deleted. The other makes it again far enough back that the ten are handed out, does not
// reconcile its own a second time, and asks the list source to list again.
func TestRecreatedDurableForgetsNothing(t *testing.T) {
	w := newWorld(t)
	r := newRows(t, w, func(string) order { return order{Hang: true} })
	p := w.child("first", time.Minute)
	p.WaitLine("running")
	held, others := numbered("held", 10), numbered("other", 10)
	w.publish(held...)
	r.waitBegun("first", held[:2]...) // it has two workers
	w.unsettled(10)

	var lists atomic.Int32
	again := list.New(func(context.Context) ([]string, error) {
		lists.Add(1)
		return nil, nil
	}).Every(time.Hour)
	b := w.join(watching(again), withSource(func(s *widgetSource) { s.AckWait(time.Minute) }))
	p.Kill()
	w.publish(others...)
	b.waitDone(t, others...)
	w.unsettled(10) // the others are confirmed
	if lists.Load() != 1 {
		t.Errorf("%d lists, want the one at the start", lists.Load())
	}

	if err := w.js.DeleteConsumer(t.Context(), widgetStream, widgetDurable); err != nil {
		t.Fatal(err)
	}
	b.waitDone(t, held...)
	w.settled()
	b.expectOnce(t, append(held, others...)...)
	natstest.Until(t, "it lists again", natstest.Patience, func() bool { return lists.Load() == 2 })
}
