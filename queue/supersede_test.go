package queue_test

import (
	"testing"

	"github.com/levelstream/jsource/queue"
)

func TestS11_NewerMessagesThatOweAllTheRestSupersede(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{Supersede: true})
	old := register(g, "old", "a", "b")
	byA := register(g, "byA", "a")
	old.expect(t)
	byB := register(g, "byB", "b", "c")
	old.expect(t, "superseded by byB")
	attempt(tracker, "a", queue.Success, nil)
	attempt(tracker, "b", queue.Success, nil)
	old.expect(t)
	byA.expect(t, "settled")
	byB.expect(t)
}

// What a success leaves may be owed by newer messages already.
func TestS11_ASuccessThatLeavesOnlyWhatNewerMessagesOweSupersedes(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{Supersede: true})
	old := register(g, "old", "a", "b", "c")
	register(g, "byC", "c")
	register(g, "byB", "b")
	old.expect(t)
	attempt(tracker, "a", queue.Success, nil)
	old.expect(t, "superseded by byB")
}

func TestS11_BuryingWhatDiedMayLeaveOnlyWhatNewerMessagesOwe(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{Supersede: true})
	old := register(g, "old", "a", "b")
	attempt(tracker, "a", queue.Dead, errBroken)
	old.expect(t, died("a", errBroken, 1, true))
	register(g, "byB", "b")
	old.expect(t)
	old.Buried("a")
	old.expect(t, "superseded by byB")
}

// A newer message that was given back is no reason any more to think the older one superseded.
func TestS11_ForgottenNewerMessageNoLongerSupersedes(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{Supersede: true})
	old := register(g, "old", "a", "b")
	newer := register(g, "newer", "a")
	newer.Forget()
	attempt(tracker, "b", queue.Success, nil)
	old.expect(t)
	attempt(tracker, "a", queue.Success, nil)
	old.expect(t, "settled")
	newer.expect(t)
}

// Another newer one still owes what the forgotten one owed.
func TestS11_ForgottenMessageInTheMiddleChangesNothing(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{Supersede: true})
	old := register(g, "old", "a", "b")
	middle := register(g, "middle", "a", "c")
	register(g, "newest", "a")
	middle.Forget()
	old.expect(t)
	attempt(tracker, "b", queue.Success, nil)
	old.expect(t, "superseded by newest")
}

func TestS11_OtherGroupsMessagesDoNotSupersede(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{Supersede: true})
	other := tracker.NewGroup(queue.GroupOptions{Supersede: true})
	m := register(g, "m", "a")
	register(other, "other", "a")
	m.expect(t)
	attempt(tracker, "a", queue.Success, nil)
	m.expect(t, "settled")
}

// Else a key that changes often and always fails would never reach MaxAttempts.
func TestS11_AttemptsCarryOver(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{Supersede: true, MaxAttempts: 3})
	m1 := register(g, "m1", "a")
	attempt(tracker, "a", queue.Failed, errBroken)
	m2 := register(g, "m2", "a")
	m1.expect(t, "superseded by m2")
	attempt(tracker, "a", queue.Failed, errBroken)
	m3 := register(g, "m3", "a")
	m2.expect(t, "superseded by m3")
	attempt(tracker, "a", queue.Failed, errBroken)
	m3.expect(t, died("a", errBroken, 3, false))
}

// Without Supersede every message settles by itself.
func TestS11_OffByDefault(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{})
	m1, m2 := register(g, "m1", "a"), register(g, "m2", "a")
	m1.expect(t)
	attempt(tracker, "a", queue.Success, nil)
	m1.expect(t, "settled")
	m2.expect(t, "settled")
}
