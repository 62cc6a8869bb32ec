package queue_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/queue"
)

var owedCounts = []int{1_000, 10_000, 100_000}

// BenchmarkTracker_OneMoreOnAHotKey registers one more message on a key that so many owe already, runs an
// attempt that does not finish, and gives the message back. The cost must not depend on how many are owed.
func BenchmarkTracker_OneMoreOnAHotKey(b *testing.B) {
	for _, owed := range owedCounts {
		b.Run(fmt.Sprintf("owed=%d", owed), func(b *testing.B) {
			tracker := queue.NewTracker[int]()
			g, other := tracker.NewGroup(queue.GroupOptions{}), tracker.NewGroup(queue.GroupOptions{})
			before := make([]silent, owed)
			for i := range before {
				g.Register(&before[i].Entry, &before[i], []int{0})
			}
			reqs := []int{0}
			b.ReportAllocs()
			for b.Loop() {
				m := &silent{}
				other.Register(&m.Entry, m, reqs)
				a := tracker.Begin(0)
				a.End(queue.Unfinished, nil)
				m.Forget()
			}
		})
	}
}

// BenchmarkTracker_HotKey settles so many messages with each attempt; an operation is one message.
func BenchmarkTracker_HotKey(b *testing.B) {
	for _, owed := range owedCounts {
		b.Run(fmt.Sprintf("owed=%d", owed), func(b *testing.B) {
			tracker := queue.NewTracker[int]()
			g := tracker.NewGroup(queue.GroupOptions{})
			reqs := []int{0}
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				m := &silent{}
				g.Register(&m.Entry, m, reqs)
				if n++; n%owed == 0 {
					a := tracker.Begin(0)
					a.End(queue.Success, nil)
				}
			}
		})
	}
}

func BenchmarkTracker_OneKeyPerMessage(b *testing.B) {
	tracker := queue.NewTracker[int]()
	g := tracker.NewGroup(queue.GroupOptions{})
	reqs := []int{0}
	b.ReportAllocs()
	for b.Loop() {
		m := &silent{}
		reqs[0]++
		g.Register(&m.Entry, m, reqs)
		a := tracker.Begin(reqs[0])
		a.End(queue.Success, nil)
	}
}

// BenchmarkTracker_NothingOwed is what an attempt costs that no message asked for.
func BenchmarkTracker_NothingOwed(b *testing.B) {
	fn := queue.Wrap(queue.NewTracker[int](), func(context.Context, int) (polling, error) {
		return polling{}, nil
	})
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = fn(ctx, 1)
	}
}

// BenchmarkTracker_Memory says how many bytes an owed message takes, its Entry included.
func BenchmarkTracker_Memory(b *testing.B) {
	const owed = 100_000
	for _, keys := range []int{1, owed} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			for b.Loop() {
				tracker := queue.NewTracker[int]()
				g := tracker.NewGroup(queue.GroupOptions{})
				base := heap()
				messages := make([]*silent, owed)
				for i := range messages {
					messages[i] = &silent{}
					g.Register(&messages[i].Entry, messages[i], []int{i % keys})
				}
				b.ReportMetric(float64(heap()-base)/owed-8, "bytes/owed")
				runtime.KeepAlive(messages)
				runtime.KeepAlive(tracker)
			}
		})
	}
}

func BenchmarkQueue_AddGetDone(b *testing.B) {
	for _, cause := range []queue.Cause{queue.Event, queue.Resync} {
		b.Run(cause.String(), func(b *testing.B) {
			q := queue.New("bench", workqueue.DefaultTypedControllerRateLimiter[int]())
			defer q.ShutDown()
			req := 0
			b.ReportAllocs()
			for b.Loop() {
				req++
				q.Add(req, cause)
				got, _, _ := q.Get()
				q.Done(got)
			}
		})
	}
}

func BenchmarkQueue_ClientGoAlone(b *testing.B) {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[int]())
	defer q.ShutDown()
	req := 0
	b.ReportAllocs()
	for b.Loop() {
		req++
		q.Add(req)
		got, _ := q.Get()
		q.Done(got)
	}
}
