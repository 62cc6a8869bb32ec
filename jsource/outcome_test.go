package jsource_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
)

// S6: a success with RequeueAfter acks; it only schedules.
func TestRequeueAfterIsASuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(doing(always("a", ending{res: reconciler.Result{RequeueAfter: time.Hour}})))
	r := w.publish("a")[0]
	w.waitSaid(r.Sequence, "ack of delivery 1")
}

// S6: what is unfinished stays owed and runs again, after RequeueAfter or with backoff.
func TestUnfinishedStaysOwed(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]time.Duration{"after a while": time.Millisecond, "with backoff": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := make(script)
			defer close(s)
			m := w.join(doing(s.reconcile), workers(2))
			r := w.publish("job")[0]
			s.end(t, ending{res: reconciler.Result{Unfinished: true, RequeueAfter: again}})
			s.end(t, ending{res: reconciler.Result{Unfinished: true, RequeueAfter: again}})
			m.waitAttempts(t, "job", 3)
			w.caughtUp()
			w.expectSaid(r.Sequence, "")
			s.end(t, success)
			w.waitSaid(r.Sequence, "ack of delivery 1")
		})
	}
}

// Case 31: a job that is unfinished when the controller stops is taken up again by the next, though later
// events of other keys were settled meanwhile.
func TestUnfinishedOutlivesTheController(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.join(doing(always("job", ending{res: reconciler.Result{Unfinished: true, RequeueAfter: time.Hour}})))
	job := w.publish("job")[0]
	first.waitBegun(t, "job")
	for _, r := range w.publish("b", "c", "d") {
		w.waitSaid(r.Sequence, "ack of delivery 1")
	}
	first.stop()
	first.wait()
	w.expectSaid(job.Sequence, "nak of delivery 1")

	second := w.join()
	w.settled()
	second.expectOnce(t, "job")
	w.expectSaid(job.Sequence, "nak of delivery 1, ack of delivery 2")
}

// S6: an attempt that returns an error or panics leaves its request owed; it is tried again with backoff.
func TestFailureStaysOwed(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]ending{"error": {err: errTest}, "panic": {err: errPanic}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			early := make(chan string, 100)
			do := returning(map[string][]ending{"a": {e, e}})
			m := w.join(doing(func(ctx context.Context, req string) (reconciler.Result, error) {
				early <- w.said(1)
				return do(ctx, req)
			}))
			w.publish("a")
			w.settled()
			w.expectSaid(1, "ack of delivery 1")
			if n := m.begun()["a"]; n != 3 {
				t.Errorf("%d attempts, want 3", n)
			}
			for range len(early) {
				if got := <-early; got != "" {
					t.Errorf("before an attempt ended, the witness saw %q", got)
				}
			}
		})
	}
}

// S6: a terminal error makes a dead letter at once; the message is settled when nothing else in it is owed.
func TestTerminalErrorIsADeadLetterAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	do := always("a", ending{err: reconciler.TerminalError(errTest)})
	m := w.join(mappedBy(w.srv.Conn(), split, nil), workers(2), holding("b"), doing(do))
	r := w.publish("a+b")[0]
	letter := w.waitLetters(1)[0]
	m.waitBegun(t, "b")
	w.caughtUp()
	w.expectSaid(r.Sequence, "")
	for header, want := range map[string]string{
		jsource.DeadRequest: "a", jsource.DeadReason: "terminal", jsource.DeadError: "terminal error: out of stock",
		jsource.DeadAttempts: "1", jsource.DeadSequence: "1",
	} {
		if got := letter.Header.Get(header); got != want {
			t.Errorf("header %s is %q, want %q", header, got, want)
		}
	}
	m.release("b")
	w.waitSaid(r.Sequence, "term of delivery 1")
	w.settled()
	m.expectOnce(t, "a", "b", barrier)
}

// S6: the other way around, the request that succeeds does not settle what awaits its dead letter.
func TestSuccessDoesNotSettleWhatDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := make(script)
	defer close(s)
	m := w.join(mappedBy(w.srv.Conn(), split, nil), workers(2), doing(
		func(ctx context.Context, req string) (reconciler.Result, error) {
			if req == "a" {
				return s.reconcile(ctx, req)
			}
			return reconciler.Result{}, nil
		}))
	r := w.publish("a+b")[0]
	m.waitDone(t, "b")
	w.caughtUp()
	w.expectSaid(r.Sequence, "")
	s.end(t, ending{err: reconciler.TerminalError(errTest)})
	w.waitSaid(r.Sequence, "term of delivery 1")
	w.waitLetters(1)
}

// S6: requests of one message that die at the same time are a dead letter each, and one verdict.
func TestRequestsThatDieTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(mappedBy(w.srv.Conn(), split, nil), workers(4), doing(
		func(context.Context, string) (reconciler.Result, error) {
			return reconciler.Result{}, reconciler.TerminalError(errTest)
		}))
	r := w.publish("a+b+c+d")[0]
	w.waitSaid(r.Sequence, "term of delivery 1")
	died := map[string]bool{}
	for _, letter := range w.waitLetters(4) {
		died[letter.Header.Get(jsource.DeadRequest)] = true
	}
	if len(died) != 4 {
		t.Errorf("dead letters of %v, want a, b, c and d", died)
	}
	w.settled()
}

// S6: MaxAttempts failed attempts make a dead letter, after which nobody tries any more.
func TestMaxAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(withSource(func(s *widgetSource) { s.MaxAttempts(3) }), doing(always("a", ending{err: errTest})))
	r := w.publish("a")[0]
	w.waitSaid(r.Sequence, "term of delivery 1")
	letter := w.waitLetters(1)[0]
	for header, want := range map[string]string{
		jsource.DeadRequest: "a", jsource.DeadReason: "attempts", jsource.DeadAttempts: "3",
		jsource.DeadError: "out of stock",
	} {
		if got := letter.Header.Get(header); got != want {
			t.Errorf("header %s is %q, want %q", header, got, want)
		}
	}
	// The next event gets its own attempts; it also shows that nobody was at it in between.
	again := w.publish("a")[0]
	w.waitSaid(again.Sequence, "term of delivery 1")
	if n := m.begun()["a"]; n != 6 {
		t.Errorf("%d attempts, want 3 for each message", n)
	}
}

// S6: without MaxAttempts no number of failures is too many.
func TestNoMaxAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many := make([]ending, 9)
	for i := range many {
		many[i].err = errTest
	}
	w.join(doing(returning(map[string][]ending{"a": many})))
	r := w.publish("a")[0]
	w.waitSaid(r.Sequence, "ack of delivery 1")
	if n := len(w.letters(widgetStream + "-dead")); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// S6: an attempt that is cut short by stopping does not count against MaxAttempts; one that runs into its
// timeout does.
func TestCutAttemptsDoNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(withSource(func(s *widgetSource) { s.MaxAttempts(1) }), holding("a"),
		built(func(b *reconciler.Builder[string]) { b.Grace(0) }))
	r := w.publish("a")[0]
	m.waitBegun(t, "a")
	m.stop()
	m.wait()
	w.expectSaid(r.Sequence, "nak of delivery 1")
	if n := len(w.letters(widgetStream + "-dead")); n != 0 {
		t.Errorf("%d dead letters after a stop", n)
	}

	w.join(withSource(func(s *widgetSource) { s.MaxAttempts(1) }), holding("a"),
		built(func(b *reconciler.Builder[string]) { b.Timeout(time.Millisecond) }))
	w.waitSaid(r.Sequence, "nak of delivery 1, term of delivery 2")
	if letter := w.waitLetters(1)[0]; letter.Header.Get(jsource.DeadReason) != "attempts" {
		t.Errorf("its headers are %v", letter.Header)
	}
}

// Case 29: the policy can be replaced, for a Reconciler that returns RequeueAfter without having reconciled.
func TestPolicyKeepsRequeueAfterOwed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := make(script)
	defer close(s)
	m := w.join(doing(s.reconcile), built(func(b *reconciler.Builder[string]) {
		b.Workers(2).Outcome(func(res reconciler.Result, err error) queue.Outcome {
			if err == nil && res.RequeueAfter > 0 {
				return queue.Unfinished
			}
			return queue.DefaultPolicy(res, err)
		})
	}))
	r := w.publish("a")[0]
	s.end(t, ending{res: reconciler.Result{RequeueAfter: time.Millisecond}})
	m.waitAttempts(t, "a", 2)
	w.caughtUp()
	w.expectSaid(r.Sequence, "")
	s.end(t, success)
	w.waitSaid(r.Sequence, "ack of delivery 1")
}

// A terminal error may be wrapped.
func TestTerminalErrorMayBeWrapped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(doing(always("a", ending{err: errors.Join(errTest, reconciler.TerminalError(errTest))})))
	r := w.publish("a")[0]
	w.waitSaid(r.Sequence, "term of delivery 1")
}
