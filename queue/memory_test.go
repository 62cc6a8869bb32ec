package queue_test

import (
	"runtime"
	"testing"
	"time"

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

// TestMemory_TrackerGoesBackToBase is case 26 for the Tracker: a million keys owed at once leave nothing.
func TestMemory_TrackerGoesBackToBase(t *testing.T) {
	tracker := queue.NewTracker[int]()
	g := tracker.NewGroup(queue.GroupOptions{MaxAttempts: 1})
	base, n := heap(), manyKeys()
	messages := make([]silent, n)
	for i := range messages {
		g.Register(&messages[i].Entry, &messages[i], []int{i})
	}
	peak := heap()
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
	equal(t, "requests owed", tracker.Owed(), 0)
	equal(t, "requests that hold memory", tracker.Records(), 0)
	runtime.KeepAlive(messages)
	messages = nil
	left := heap() - base
	t.Logf("%d keys: %d bytes each while owed, %d bytes left in all", n, (peak-base)/n, left)
	if left > 64<<10 {
		t.Errorf("%d bytes are left, more than 64 KiB", left)
	}
	runtime.KeepAlive(tracker)
}

// TestMemory_QueueGoesBackToBase is case 26 for the Queue. Some bytes a key are tolerated: client-go keeps
// what is queued in a map, and the limiter what failed in another, and a map keeps its size for ever.
func TestMemory_QueueGoesBackToBase(t *testing.T) {
	const tolerated = 32 // bytes a key
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[int](time.Microsecond, time.Millisecond)
	q := queue.New("memory", limiter)
	defer q.ShutDown()
	base, n := heap(), manyKeys()
	for i := range n {
		q.Add(i, queue.Event)
	}
	peak := heap()
	for settled := 0; settled < n; {
		req, cause, _ := q.Get()
		if req%16 == 0 && q.Retries(req) < 2 {
			q.Retry(req)
		} else {
			q.Forget(req)
			settled++
		}
		_ = cause
		q.Done(req)
	}
	equal(t, "waiting", q.Len(), 0)
	equal(t, "requests that hold memory", q.States(), 0)
	equal(t, "retries that the limiter remembers", limiter.NumRequeues(0), 0)
	left := heap() - base
	t.Logf("%d keys: %d bytes each while queued, %d bytes left in all", n, (peak-base)/n, left)
	if left > n*tolerated {
		t.Errorf("%d bytes a key are left, more than %d", left/n, tolerated)
	}
	runtime.KeepAlive(q)

	// What is left is for the most keys at once, not for the keys that there ever were.
	for i := range n {
		q.Add(n+i, queue.Event)
		req, _, _ := q.Get()
		q.Forget(req)
		q.Done(req)
	}
	if more := heap() - base - left; more > 256<<10 {
		t.Errorf("as many keys again, one after the other, leave %d bytes more", more)
	}
}
