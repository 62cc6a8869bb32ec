package jsource_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// dead reads the dead letters that f lets through.
func (w *world) dead(a *jsource.Admin, f jsource.LetterFilter) []*jsource.DeadLetter {
	w.tb.Helper()
	var list []*jsource.DeadLetter
	for l, err := range a.DeadLetters(w.tb.Context(), f) {
		if err != nil {
			w.tb.Fatal(err)
		}
		list = append(list, l)
	}
	return list
}

func requestsOf(list []*jsource.DeadLetter) []string {
	var reqs []string
	for _, l := range list {
		reqs = append(reqs, l.Request)
	}
	return reqs
}

// mended is a Reconciler for which every request is hopeless until it is mended.
func mended() (do reconciler.Func[string], mend func()) {
	var well atomic.Bool
	return func(ctx context.Context, req string) (reconciler.Result, error) {
		if well.Load() {
			return reconciler.Result{}, nil
		}
		return dying(ctx, req)
	}, func() { well.Store(true) }
}

// An event that is replayed comes back as a new change, with what it carried, and is reconciled; its letter is
// gone.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	do, mend := mended()
	m := w.join(doing(do))
	seq := w.raw(nats.Created, `{"kind":"created","key":"a","new":{"version":7}}`,
		"Nats-Msg-Id", "change-1", "Nats-Expected-Last-Sequence", "0", "Tenant", "acme", "Tenant", "umbrella")
	w.waitSaid(seq, "term of delivery 1")
	w.waitLetters(1)
	mend()

	a := w.admin()
	letters := w.dead(a, jsource.LetterFilter{})
	if len(letters) != 1 {
		t.Fatalf("%d letters", len(letters))
	}
	l := letters[0]
	if l.ID != "shop_widgets-dead/1" || l.Stream != widgetStream || l.Sequence != seq || l.Subject != "shop.widgets.created" ||
		l.Durable != widgetDurable || l.Reason != "terminal" || l.Error != "terminal error: out of stock" || l.Request != "a" ||
		l.Attempts != 1 || l.Deliveries != 1 || l.Stored.IsZero() || l.FirstSeen.IsZero() || l.Died.IsZero() {
		t.Errorf("the letter is %+v", l)
	}
	if l.Header.Get("Nats-Msg-Id") != "change-1" || !slices.Equal(l.Header["Tenant"], []string{"acme", "umbrella"}) {
		t.Errorf("its headers are %v", l.Header)
	}

	r, err := a.Replay(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if r.Stream != widgetStream || r.Sequence != 2 || r.Duplicate {
		t.Errorf("the receipt is %+v", r)
	}
	w.waitSaid(r.Sequence, "ack of delivery 1")
	m.waitDone(t, "a")
	event, err := w.mustStream(widgetStream).GetMsg(t.Context(), r.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	if string(event.Data) != `{"kind":"created","key":"a","new":{"version":7}}` || event.Subject != "shop.widgets.created" {
		t.Errorf("published was %s on %s", event.Data, event.Subject)
	}
	if id := event.Header.Get("Nats-Msg-Id"); id == "" || id == "change-1" || event.Header.Get("Nats-Expected-Last-Sequence") != "" ||
		!slices.Equal(event.Header["Tenant"], []string{"acme", "umbrella"}) ||
		event.Header.Get(jsource.DeadReplayOf) != "shop_widgets/1" || event.Header.Get(jsource.DeadReason) != "" {
		t.Errorf("its headers are %v", event.Header)
	}
	if left := w.dead(a, jsource.LetterFilter{}); len(left) != 0 {
		t.Errorf("there are still letters: %+v", left)
	}

	// As if it had been interrupted before the letter was dropped.
	again, err := a.Replay(t.Context(), l)
	if err != nil || again.Sequence != r.Sequence || !again.Duplicate {
		t.Errorf("replayed again: %+v, %v", again, err)
	}
}

// Two requests of one event that died are one event when both are replayed.
func TestReplayOfTwoRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	do, mend := mended()
	m := w.join(mappedBy(w.srv.Conn(), split, nil), doing(do))
	first := w.publish("a+b")[0]
	w.waitSaid(first.Sequence, "term of delivery 1")
	w.waitLetters(2)
	mend()
	a := w.admin()
	var at []uint64
	for l, err := range a.DeadLetters(t.Context(), jsource.LetterFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Replay(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, r.Sequence)
	}
	if !slices.Equal(at, []uint64{2, 2}) {
		t.Errorf("replayed as sequences %v, want one event", at)
	}
	w.settled()
	m.waitDone(t, "a", "b")
}

// What dies again after a replay is a letter again, of the replayed event.
func TestReplayThatDiesAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(doing(dying))
	w.waitSaid(w.publish("a")[0].Sequence, "term of delivery 1")
	a := w.admin()
	l := w.dead(a, jsource.LetterFilter{})[0]
	r, err := a.Replay(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	w.waitSaid(r.Sequence, "term of delivery 1")
	letters := w.dead(a, jsource.LetterFilter{})
	if len(letters) != 1 || letters[0].Sequence != r.Sequence || letters[0].Header.Get(jsource.DeadReplayOf) != "shop_widgets/1" {
		t.Errorf("the letters are %+v", letters)
	}
	if r, err = a.Replay(t.Context(), letters[0]); err != nil || r.Duplicate {
		t.Errorf("replayed once more: %+v, %v", r, err)
	}
}

// A letter that is a mere reference is replayed from the original, as long as that is there.
func TestReplayOfAReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	do, mend := mended()
	m := w.join(doing(do), withSource(func(s *widgetSource) {
		s.DeadLetters(jetstream.StreamConfig{Name: "DEAD", MaxMsgSize: 2048, Subjects: []string{"graves.>"}})
	}))
	payload := `{"kind":"created","key":"%s","new":{"color":"` + strings.Repeat("r", 3900) + `"}}`
	for _, key := range []string{"a", "b"} {
		w.waitSaid(w.raw(nats.Created, fmt.Sprintf(payload, key)), "term of delivery 1")
	}
	mend()
	a := w.admin()
	letters := w.dead(a, jsource.LetterFilter{}) // which are on subjects of their own
	if got := requestsOf(letters); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("letters of %v", got)
	}
	r, err := a.Replay(t.Context(), letters[0])
	if err != nil {
		t.Fatal(err)
	}
	w.waitSaid(r.Sequence, "ack of delivery 1")
	m.waitDone(t, "a")

	if err := w.mustStream(widgetStream).DeleteMsg(t.Context(), letters[1].Sequence); err != nil {
		t.Fatal(err)
	}
	_, err = a.Replay(t.Context(), letters[1])
	expectError(t, err, "DEAD/2", "its payload is not in the letter", "the original is gone")
	if left := w.dead(a, jsource.LetterFilter{}); len(left) != 1 {
		t.Errorf("%d letters are left, want that of b", len(left))
	}
}

// An event that looks like a server's answer is read from its letter, and replayed, as any.
func TestLetterOfWhatLooksLikeAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(withSource(func(s *widgetSource) { s.UndecodableDelay(1) }))
	w.waitSaid(w.raw(nats.Created, "", "Status", "404", "description", "gone", "jsource-dead-reason", "mine"), "nak of delivery 1, nak of delivery 2, term of delivery 3")
	a := w.admin()
	letters := w.dead(a, jsource.LetterFilter{})
	if len(letters) != 1 || letters[0].Reason != "undecodable" || letters[0].Header.Get("Status") != "404" ||
		letters[0].Header["description"][0] != "gone" || len(letters[0].Header["jsource-dead-reason"]) != 0 {
		t.Fatalf("the letters are %+v", letters)
	}
	if _, err := a.Replay(t.Context(), letters[0]); err != nil {
		t.Error(err)
	}
}

// Letters are found by stream, durable and reason, and by ID; dropping one leaves the others.
func TestDeadLettersAreFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(doing(dying), withSource(func(s *widgetSource) { s.UndecodableDelay(1) }))
	a := w.admin()
	if list := w.dead(a, jsource.LetterFilter{}); len(list) != 0 {
		t.Errorf("before anything died: %+v", list)
	}
	w.join(withSource(func(s *widgetSource) { s.Durable("other").UndecodableDelay(1) }))
	w.waitSaid(w.publish("a")[0].Sequence, "term of delivery 1")
	bad := w.raw(nats.Created, "{")
	w.waitLetters(3)
	for _, tc := range []struct {
		filter jsource.LetterFilter
		want   int
	}{
		{jsource.LetterFilter{}, 3},
		{jsource.LetterFilter{Durable: "other"}, 1},
		{jsource.LetterFilter{Durable: widgetDurable}, 2},
		{jsource.LetterFilter{Stream: widgetStream}, 3},
		{jsource.LetterFilter{Stream: "elsewhere"}, 0},
		{jsource.LetterFilter{Reason: "terminal"}, 1},
		{jsource.LetterFilter{Reason: "undecodable", Durable: "other"}, 1},
	} {
		if got := w.dead(a, tc.filter); len(got) != tc.want {
			t.Errorf("%+v: %d letters, want %d", tc.filter, len(got), tc.want)
		}
	}

	l := w.dead(a, jsource.LetterFilter{Durable: "other"})[0]
	if l.Sequence != bad || string(l.Data) != "{" || l.Request != "" {
		t.Errorf("the other's letter is %+v", l)
	}
	same, err := a.DeadLetter(t.Context(), l.ID)
	if err != nil || same.ID != l.ID || same.Durable != "other" {
		t.Errorf("by its ID: %+v, %v", same, err)
	}
	if err := a.Drop(t.Context(), l); err != nil {
		t.Error(err)
	}
	if err := a.Drop(t.Context(), l); !errors.Is(err, jsource.ErrLetterNotFound) {
		t.Errorf("dropped again: %v", err)
	}
	for _, id := range []string{l.ID, "shop_widgets/1", "nowhere/1", "nonsense", "shop_widgets-dead/x", "shop_widgets-dead/0", "/1"} {
		if _, err := a.DeadLetter(t.Context(), id); !errors.Is(err, jsource.ErrLetterNotFound) {
			t.Errorf("ID %q: %v", id, err)
		}
	}
	if left := w.dead(a, jsource.LetterFilter{}); len(left) != 2 {
		t.Errorf("%d letters are left, want 2", len(left))
	}
}

// §7: a replay is a trace of its own, with a link to the original's.
func TestReplayIsLinkedToTheOriginal(t *testing.T) {
	s := recordSpans(t)
	w := newWorld(t)
	w.join(doing(dying))
	w.waitSaid(w.publish("a")[0].Sequence, "term of delivery 1")
	a := w.admin()
	if _, err := a.Replay(t.Context(), w.dead(a, jsource.LetterFilter{})[0]); err != nil {
		t.Fatal(err)
	}
	sent := s.wait("send shop.widgets", 2)
	if sent[0].SpanContext.TraceID() == sent[1].SpanContext.TraceID() || !linkedTo(sent[1], sent[0]) {
		t.Errorf("the replay's span has links %v", sent[1].Links)
	}
	for _, p := range s.wait("process shop.widgets", 2) {
		if p.SpanKind != trace.SpanKindConsumer {
			t.Errorf("a delivery's span is %v", p.SpanKind)
		}
	}
	natstest.Eventually(t, "the replayed delivery is in the replay's trace", natstest.Patience, func() error {
		for _, p := range s.named("process shop.widgets") {
			if p.Parent.SpanID() == sent[1].SpanContext.SpanID() {
				return nil
			}
		}
		return errors.New("it is not")
	})
}
