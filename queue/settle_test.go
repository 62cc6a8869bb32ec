package queue_test

import (
	"fmt"
	"testing"

	"github.com/levelstream/jsource/queue"
)

func newGroup(o queue.GroupOptions) (*queue.Tracker[string], *queue.Group[string]) {
	t := queue.NewTracker[string]()
	return t, t.NewGroup(o)
}

func TestS1_RunningAttemptDoesNotCount(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	running := tracker.Begin("a")
	m := register(g, "m", "a")
	running.End(queue.Success, nil)
	m.expect(t)
	equal(t, "waiting", m.Waiting(), true)

	attempt(tracker, "a", queue.Success, nil)
	m.expect(t, "settled")
}

func TestS1_RunningAttemptThatCoversAnotherMessageDoesNotCount(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	first := register(g, "first", "a")
	running := tracker.Begin("a")
	second := register(g, "second", "a")
	equal(t, "first is waiting", first.Waiting(), false)
	equal(t, "second is waiting", second.Waiting(), true)
	running.End(queue.Success, nil)
	first.expect(t, "settled")
	second.expect(t)
}

func TestS1_EveryRequestIsNeeded(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	m := register(g, "m", "a", "b", "c")
	for _, req := range []string{"c", "a", "a", "x"} {
		attempt(tracker, req, queue.Success, nil)
		m.expect(t)
	}
	equal(t, "owed", fmt.Sprint(m.Owes()), "[b]")
	attempt(tracker, "b", queue.Success, nil)
	m.expect(t, "settled")
	equal(t, "owed", len(m.Owes()), 0)
}

func TestS1_AttemptThatBeganAfterTheStopDoesNotCount(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	m1, m2 := register(g, "m1", "a"), register(g, "m2", "b")
	running := tracker.Begin("a")
	g.Stop()
	late := tracker.Begin("b")
	late.End(queue.Dead, errBroken)
	attempt(tracker, "b", queue.Success, nil)
	running.End(queue.Success, nil)
	m1.expect(t, "settled")
	m2.expect(t)

	m3 := &msg{name: "m3"}
	equal(t, "registered after the stop", g.Register(&m3.Entry, m3, []string{"a"}), false)
	equal(t, "m3 may be given back", g.Abandon(&m3.Entry, false), true)
	equal(t, "m2 may be given back", g.Abandon(&m2.Entry, false), true)
	equal(t, "m1 may be given back", g.Abandon(&m1.Entry, true), false)
}

func TestAbandon_LeavesWhatARunningAttemptMaySettle(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	m1, m2 := register(g, "m1", "a"), register(g, "m2", "a", "b")
	m3 := register(g, "m3", "a")
	a := tracker.Begin("a")
	m4 := register(g, "m4", "a")
	g.Stop()
	for _, m := range []*msg{m1, m3} {
		equal(t, m.name+" is abandoned", g.Abandon(&m.Entry, false), false)
	}
	for _, m := range []*msg{m2, m4} {
		equal(t, m.name+" is abandoned", g.Abandon(&m.Entry, false), true)
	}
	equal(t, "m3 is abandoned at last", g.Abandon(&m3.Entry, true), true)
	a.End(queue.Success, nil)
	m1.expect(t, "settled")
	for _, m := range []*msg{m2, m3, m4} {
		m.expect(t)
	}
	equal(t, "requests that hold memory", tracker.Records(), 0)
}

// An attempt that began after the stop settles nothing, so nothing has to wait for it, unless another one
// that does is running, too.
func TestAbandon_DoesNotWaitForAttemptsThatBeganAfterTheStop(t *testing.T) {
	for _, covered := range []bool{false, true} {
		tracker, g := newGroup(queue.GroupOptions{})
		m := register(g, "m", "a")
		var early queue.Attempt[string]
		if covered {
			early = tracker.Begin("a")
		}
		g.Stop()
		late := tracker.Begin("a")
		equal(t, "m is abandoned", g.Abandon(&m.Entry, false), !covered)
		late.End(queue.Success, nil)
		m.expect(t)
		if covered {
			early.End(queue.Success, nil)
			m.expect(t, "settled")
		}
	}
}

func TestAttempted_IsClosedByTheFirstAttempt(t *testing.T) {
	tracker, _ := newGroup(queue.GroupOptions{})
	select {
	case <-tracker.Attempted():
		t.Fatal("closed before any attempt")
	default:
	}
	attempt(tracker, "a", queue.Failed, errBroken)
	attempt(tracker, "a", queue.Failed, errBroken)
	<-tracker.Attempted()
}

func TestS1_ForgottenMessageIsNotSettled(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	m := register(g, "m", "a", "b")
	running := tracker.Begin("a")
	equal(t, "owed until now", m.Forget(), true)
	equal(t, "owed until now", m.Forget(), false)
	running.End(queue.Success, nil)
	attempt(tracker, "b", queue.Success, nil)
	m.Buried("a")
	m.expect(t)
	equal(t, "requests that hold memory", tracker.Records(), 0)
}

func TestS5_NothingOwedIsNotRegistered(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	m := &msg{name: "m"}
	equal(t, "owed", g.Register(&m.Entry, m, nil), false)
	equal(t, "requests owed", tracker.Owed(), 0)
	equal(t, "waiting", m.Waiting(), false)
	equal(t, "owed until now", m.Forget(), false)
	equal(t, "owed", len(m.Owes()), 0)
	m.expect(t)
}

func TestS5_TheSameRequestTwiceIsOwedOnce(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	m := register(g, "m", "a", "a", "b", "a", "b")
	equal(t, "owed", fmt.Sprint(m.Owes()), "[a b]")
	attempt(tracker, "a", queue.Success, nil)
	m.expect(t)
	attempt(tracker, "b", queue.Success, nil)
	m.expect(t, "settled")
}

func TestS6_OnlySuccessSettles(t *testing.T) {
	for _, o := range []queue.Outcome{queue.Unfinished, queue.Failed, queue.Cut} {
		t.Run(o.String(), func(t *testing.T) {
			tracker, g := newGroup(queue.GroupOptions{})
			m := register(g, "m", "a")
			for range 50 {
				attempt(tracker, "a", o, errBroken)
				m.expect(t)
				equal(t, "owed", tracker.Owes("a"), true)
			}
			attempt(tracker, "a", queue.Success, nil)
			m.expect(t, "settled")
		})
	}
}

func TestS6_MaxAttemptsCountsFailuresThatCoverTheMessage(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{MaxAttempts: 3})
	m1 := register(g, "m1", "a")
	attempt(tracker, "a", queue.Failed, errBroken)
	attempt(tracker, "a", queue.Cut, errBroken)
	attempt(tracker, "a", queue.Unfinished, nil)
	running := tracker.Begin("a")
	m2 := register(g, "m2", "a")
	running.End(queue.Failed, errBroken)
	m1.expect(t)

	attempt(tracker, "a", queue.Failed, errBroken)
	m1.expect(t, died("a", errBroken, 3, false))
	m2.expect(t)
	attempt(tracker, "a", queue.Success, nil)
	m1.expect(t)
	m2.expect(t, "settled")
	m1.Buried("a")
	m1.expect(t, "settled, buried")
}

func TestS6_SettledOnlyWhenBuriedAndTheRestReconciled(t *testing.T) {
	for _, buriedFirst := range []bool{true, false} {
		tracker, g := newGroup(queue.GroupOptions{})
		m := register(g, "m", "a", "b")
		m.Buried("a") // it has not died
		attempt(tracker, "a", queue.Dead, errBroken)
		m.expect(t, died("a", errBroken, 1, true))
		equal(t, "a is still to be reconciled", tracker.Owes("a"), false)
		equal(t, "owed", fmt.Sprint(m.Owes()), "[a b]")
		attempt(tracker, "a", queue.Success, nil) // too late for this message
		m.expect(t)

		if buriedFirst {
			m.Buried("a")
			m.expect(t)
			attempt(tracker, "b", queue.Success, nil)
		} else {
			attempt(tracker, "b", queue.Success, nil)
			m.expect(t)
			m.Buried("a")
		}
		m.expect(t, "settled, buried")
		m.Buried("a")
		m.expect(t)
	}
}

func TestS6_TwoMessagesDieOfOneAttempt(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	m1, m2 := register(g, "m1", "a"), register(g, "m2", "a")
	attempt(tracker, "a", queue.Dead, errBroken)
	m1.expect(t, died("a", errBroken, 1, true))
	m2.expect(t, died("a", errBroken, 1, true))
	m1.Buried("a")
	m1.expect(t, "settled, buried")
	m2.expect(t)
}

func TestAttempt_KnowsWhatItCovers(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	other := tracker.NewGroup(queue.GroupOptions{})
	register(g, "m1", "a", "b")
	register(other, "m2", "a")
	attempt(tracker, "a", queue.Failed, errBroken)
	a := tracker.Begin("a")
	register(g, "m3", "a")
	var covered string
	for m := range a.Covered() {
		covered += m.(*msg).name + " "
	}
	equal(t, "covered", covered, "m1 m2 ")
	for range a.Covered() {
		break // is allowed
	}
	equal(t, "owed when it began", a.Owed(), 2)
	equal(t, "number", a.Number(), 2)
	equal(t, "request", a.Request(), "a")
	a.End(queue.Success, nil)

	a = tracker.Begin("a")
	equal(t, "number after a success", a.Number(), 1)
	a.End(queue.Success, nil)
	equal(t, "attempts begun", tracker.Began(), uint64(3))
}

func TestHolding_NamesWhatHoldsLongestFirst(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	other := tracker.NewGroup(queue.GroupOptions{})
	register(other, "m0", "c", "d")
	register(g, "m1", "b")
	for range 3 {
		register(g, "m", "a", "b")
	}
	attempt(tracker, "b", queue.Failed, errBroken)
	running := tracker.Begin("a")
	holds := g.Holding(10)
	equal(t, "requests that hold", len(holds), 2)
	b, a := holds[0], holds[1]
	equal(t, "the longest", b.Request, "b")
	equal(t, "messages of b", b.Messages, 4)
	equal(t, "attempts of b", b.Attempts, 1)
	equal(t, "error of b", b.LastErr, errBroken)
	equal(t, "b is running", b.Running, false)
	equal(t, "messages of a", a.Messages, 3)
	equal(t, "a is running", a.Running, true)
	equal(t, "a came before b", a.Since.Before(b.Since), false)
	equal(t, "no more than asked for", len(g.Holding(1)), 1)
	running.End(queue.Success, nil)
}
