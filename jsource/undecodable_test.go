package jsource_test

import (
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// naks are the delays with which a message was given back.
func (w *world) naks(seq uint64) []time.Duration {
	w.tb.Helper()
	w.witness.Sync(w.tb)
	var delays []time.Duration
	for _, s := range w.witness.Of(seq) {
		if s.Kind == natstest.Nak {
			delays = append(delays, s.Delay())
		}
	}
	return delays
}

// about reports whether got is want, give or take a fifth.
func about(got, want time.Duration) bool { return got >= want*4/5 && got <= want*6/5 }

// S7: what cannot be decoded is given back twice, with a delay, and is a dead letter then, with the reason.
func TestUndecodableIsGivenBackTwice(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]struct {
		kind nats.EventKind
		data string
		why  string
	}{
		"no JSON":           {nats.Created, "not json", "not valid JSON"},
		"other kind":        {nats.Created, `{"kind":"deleted","key":"a","old":{}}`, `kind in its JSON is "deleted"`},
		"no key":            {nats.Created, `{"kind":"created","new":{}}`, `no "key"`},
		"no event's object": {nats.Updated, `{"kind":"updated","key":"a","new":{}}`, `no "old"`},
		"another type":      {nats.Created, `{"kind":"created","key":"a","new":{"version":"2"}}`, "version"},
		"empty":             {nats.Created, "", "not valid JSON"},
		"unknown kind":      {"renamed", `{"kind":"renamed","key":"a"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			const delay = 20 * time.Millisecond
			m := w.join(withSource(func(s *widgetSource) { s.UndecodableDelay(delay) }))
			seq := w.raw(bad.kind, bad.data, "Tenant", "acme")
			if name == "unknown kind" {
				w.publish("a")
				m.waitDone(t, "a")
				w.settled()
				w.expectSaid(seq, "") // the durable's filter leaves it out
				return
			}
			w.waitSaid(seq, "nak of delivery 1, nak of delivery 2, term of delivery 3")
			for _, d := range w.naks(seq) {
				if !about(d, delay) {
					t.Errorf("given back for %v, want about %v", d, delay)
				}
			}
			letter := w.waitLetters(1)[0]
			if string(letter.Data) != bad.data || letter.Header.Get("Tenant") != "acme" {
				t.Errorf("the letter holds %q with headers %v", letter.Data, letter.Header)
			}
			for header, want := range map[string]string{
				jsource.DeadReason: "undecodable", jsource.DeadDeliveries: "3",
				jsource.DeadSubject: widgets.SubjectOf(bad.kind), jsource.DeadRequest: "",
			} {
				if got := letter.Header.Get(header); got != want {
					t.Errorf("header %s is %q, want %q", header, got, want)
				}
			}
			expectError(t, headerError(letter.Header.Get(jsource.DeadError)), bad.why)
			m.expectOnce(t)
			w.settled()
		})
	}
}

type headerError string

func (e headerError) Error() string { return string(e) }

// S7: by default the delay is 5 seconds: another version may be there by then.
func TestUndecodableDelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join()
	seq := w.raw(nats.Created, "not json")
	w.waitSaid(seq, "nak of delivery 1")
	if got := w.naks(seq)[0]; !about(got, 5*time.Second) {
		t.Errorf("given back for %v, want about 5s", got)
	}
}

// S7: in a roll-out the other version of the controller may know what this one cannot decode.
func TestUndecodableByOneVersionIsReconciledByAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const delay = 300 * time.Millisecond
	old := w.join(withSource(func(s *widgetSource) { s.UndecodableDelay(delay) }))
	seq := w.raw(nats.Created, `{"kind":"created","key":"a","new":{"version":"2.0"}}`)
	w.waitSaid(seq, "nak of delivery 1")
	old.stop()
	old.wait()

	type newWidget struct {
		Version string `json:"version"`
	}
	topic := nats.NewTopic[string, newWidget](widgets.Prefix())
	m := w.join(watchingOnly(reconciler.Source[string](jsource.Subject(w.srv.Conn(), topic))))
	w.waitSaid(seq, "nak of delivery 1, ack of delivery 2")
	m.expectOnce(t, "a")
	if n := len(w.letters(widgetStream + "-dead")); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// S7: what cannot be decoded does not hold up what can.
func TestUndecodableHoldsUpNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join()
	bad := w.raw(nats.Created, "not json")
	w.waitSaid(bad, "nak of delivery 1")
	for _, r := range w.publish("a", "b") {
		w.waitSaid(r.Sequence, "ack of delivery 1")
	}
	m.expectOnce(t, "a", "b")
}
