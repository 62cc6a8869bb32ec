package queue_test

import (
	"runtime"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/queue"
)

// silent is a message that nobody asks about.
type silent struct{ queue.Entry[int] }

func (*silent) Settled(bool)                  {}
func (*silent) Superseded(queue.Message[int]) {}
func (*silent) Died(int, queue.Death)         {}

// heap is what is in use once all garbage is gone.
func heap() int {
	for range 3 {
		runtime.GC()
	}
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// manyKeys is a million, or fewer under the race detector, which makes everything slow.
func manyKeys() int {
	if raceDetector {
		return 100_000
	}
	return 1_000_000
}

// oweAndSettle has n messages owe a key each, and all come to an end, each in one way or another. It
// returns the heap that was in use while all were owed.
func oweAndSettle(tracker *queue.Tracker[int], g *queue.Group[int], n int) (peak int) {
	messages := make([]silent, n)
	for i := range messages {
		g.Register(&messages[i].Entry, &messages[i], []int{i})
	}
	peak = heap()
	for i := range messages {
		a := tracker.Begin(i)
		switch i % 4 {
		case 0:
			a.End(queue.Failed, errBroken)
			messages[i].Buried(i)
		case 1:
			a.End(queue.Unfinished, nil)
			messages[i].Forget()
		default:
			a.End(queue.Success, nil)
		}
	}
	return peak
}

// TestMemory_TrackerGoesBackToBase is case 26 for the Tracker: a million keys owed at once leave nothing.
func TestMemory_TrackerGoesBackToBase(t *testing.T) {
	tracker := queue.NewTracker[int]()
	g := tracker.NewGroup(queue.GroupOptions{MaxAttempts: 1})
	base, n := heap(), manyKeys()
	peak := oweAndSettle(tracker, g, n)
	equal(t, "requests owed", tracker.Owed(), 0)
	equal(t, "requests that hold memory", tracker.Records(), 0)
	left := heap() - base
	t.Logf("%d keys: %d bytes each while owed, %d bytes left in all", n, (peak-base)/n, left)
	if left > 64<<10 {
		t.Errorf("%d bytes are left, more than 64 KiB", left)
	}
	runtime.KeepAlive(tracker)
}

// burst queues n keys, works on all of them, and says how much heap they took and how much they leave.
func burst(n int, add func(int), work func()) (peak, left int) {
	base := heap()
	for i := range n {
		add(i)
	}
	peak = heap() - base
	for range n {
		work()
	}
	return peak, heap() - base
}

// TestMemory_QueueGoesBackToBase is case 26 for the Queue: after a million keys at once it keeps what
// client-go's queue alone keeps, and 64 KiB are tolerated. (client-go's queue keeps some 40 bytes a key:
// it has what is queued in a map, and a map keeps its size for ever.)
func TestMemory_QueueGoesBackToBase(t *testing.T) {
	n := manyKeys()
	limiter := workqueue.DefaultTypedControllerRateLimiter[int]()

	plain := workqueue.NewTypedRateLimitingQueue(limiter)
	defer plain.ShutDown()
	peakOfPlain, leftByPlain := burst(n, plain.Add, func() {
		req, _ := plain.Get()
		plain.Done(req)
	})

	q := queue.New("memory", limiter)
	defer q.ShutDown()
	work := func() {
		req, _, _ := q.Get()
		q.Done(req)
	}
	peak, left := burst(n, func(i int) { q.Add(i, queue.Event) }, work)
	t.Logf("%d keys: %d bytes each while queued (%d by client-go alone), %d bytes left in all (%d)",
		n, peak/n, peakOfPlain/n, left, leftByPlain)
	if left > leftByPlain+64<<10 {
		t.Errorf("%d bytes are left, by client-go alone %d", left, leftByPlain)
	}

	// What is left is for the most keys at once, not for all that there ever were.
	_, more := burst(n, func(i int) {
		q.Add(n+i, queue.Resync)
		work()
	}, func() {})
	if more > 64<<10 {
		t.Errorf("as many keys again, one after the other, leave %d bytes more", more)
	}
	runtime.KeepAlive(q)
	runtime.KeepAlive(plain)
}
