package jsource_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
)

// Case 15: with Supersede, the messages of one failing key do not fill MaxAckPending: one is held of each key,
// and another key is served.
func TestSupersedeLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(withSource(func(s *widgetSource) { s.MaxAckPending(4).Supersede() }),
		doing(always("bad", ending{err: errTest})))
	bad := w.publish("bad", "bad", "bad", "bad")
	good := w.publish("good")[0]
	w.waitSaid(good.Sequence, "ack of delivery 1")
	for _, r := range bad[:3] {
		w.waitSaid(r.Sequence, "ack of delivery 1")
	}
	w.expectSaid(bad[3].Sequence, "")
	m.owed("bad", 1)
	w.left(1, 0)
}

// S11: without it they do; the others wait in the stream.
func TestWithoutSupersedeOneKeyCanFillMaxAckPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(withSource(func(s *widgetSource) { s.MaxAckPending(4) }), holding("bad"))
	w.publish("bad", "bad", "bad", "bad")
	m.owed("bad", 4)
	good := w.publish("good")[0]
	w.left(4, 1)
	w.expectSaid(good.Sequence, "")
	m.release("bad")
	w.settled()
}

// S11: an older message is acked early only when newer unsettled ones owe all that it still owes.
func TestSupersededWhenAllIsOwedByNewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(mappedBy(w.srv.Conn(), split, func(s *widgetSource) { s.Supersede() }),
		holding("a", "b", "c"), workers(4))
	first := w.publish("a+b+c")[0]
	m.waitBegun(t, "a", "b", "c")
	w.publish("a")
	m.owed("a", 2)
	w.caughtUp()
	w.expectSaid(first.Sequence, "")
	m.release("c")
	m.waitDone(t, "c")
	w.caughtUp()
	w.expectSaid(first.Sequence, "")
	last := w.publish("b+d")[0]
	w.waitSaid(first.Sequence, "ack of delivery 1")
	w.caughtUp()
	w.expectSaid(2, "")
	w.expectSaid(last.Sequence, "")
	m.release("a", "b")
	w.settled()
	if n := m.begun()["a"] + m.begun()["b"]; n != 4 {
		t.Errorf("%d attempts on a and b, want two on each: those that ran cover none of the newer", n)
	}
}

// S11: failed attempts carry over to the newer message, and its dead letter names those it superseded.
func TestSupersedeCarriesAttemptsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := make(script)
	defer close(s)
	m := w.join(withSource(func(src *widgetSource) { src.Supersede().MaxAttempts(3) }), doing(s.reconcile))
	failure := ending{err: errTest}
	r := w.publish("a")
	s.end(t, failure)
	m.waitAttempts(t, "a", 2)
	r = append(r, w.publish("a", "a")...)
	w.waitSaid(r[0].Sequence, "ack of delivery 1")
	w.waitSaid(r[1].Sequence, "ack of delivery 1")
	s.end(t, failure) // of an attempt that began before the newest came: it does not count for that
	s.end(t, failure)
	s.end(t, failure)
	w.waitSaid(r[2].Sequence, "term of delivery 1")
	letter := w.waitLetters(1)[0]
	for header, want := range map[string]string{
		jsource.DeadSequence: "3", jsource.DeadAttempts: "3", jsource.DeadSuperseded: "1 2",
		jsource.DeadReason: "attempts", jsource.DeadRequest: "a",
	} {
		if got := letter.Header.Get(header); got != want {
			t.Errorf("header %s is %q, want %q", header, got, want)
		}
	}
}

// S11: a dead letter names the last hundred of those its message superseded, and says that there were more.
func TestDeadLetterNamesNoMoreThanAHundred(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := make(script)
	defer close(s)
	m := w.join(withSource(func(src *widgetSource) { src.Supersede().MaxAttempts(1) }), doing(s.reconcile))
	w.publish("a")
	m.waitAttempts(t, "a", 1)
	keys := make([]string, 120)
	for i := range keys {
		keys[i] = "a"
	}
	last := w.publish(keys...)[119]
	w.witness.WaitFor(t, "all but the newest are superseded", func([]natstest.Settlement) bool {
		return w.witness.Count(natstest.Ack) == 120
	})
	s.end(t, success)
	s.end(t, ending{err: errTest})
	w.waitSaid(last.Sequence, "term of delivery 1")
	got := strings.Fields(w.waitLetters(1)[0].Header.Get(jsource.DeadSuperseded))
	if len(got) < 103 || got[0] != "21" || got[99] != "120" || strings.Join(got[100:], " ") != "and 20 before" {
		t.Errorf("it names %v", got)
	}
	if m := fmt.Sprint(len(got)); m != "103" {
		t.Errorf("it has %s words", m)
	}
}
