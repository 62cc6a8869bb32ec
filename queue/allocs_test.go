package queue_test

import (
	"testing"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/queue"
)

// What an event costs in allocations, the message of the test's own not counted: unlike times they are the
// same on every machine.
func TestAllocations(t *testing.T) {
	tracker := queue.NewTracker[int]()
	g := tracker.NewGroup(queue.GroupOptions{})
	q := queue.New("allocations", workqueue.DefaultTypedControllerRateLimiter[int]())
	defer q.ShutDown()
	reqs := []int{1}
	messages := make([]silent, 10_000)
	next := func() *silent {
		m := &messages[0]
		messages = messages[1:]
		return m
	}
	hot := tracker.NewGroup(queue.GroupOptions{})
	for range 100 {
		m := next()
		hot.Register(&m.Entry, m, []int{2})
	}
	for _, test := range []struct {
		name string
		most float64
		does func()
	}{
		{"an event of a key that nothing owes: its record, and what the attempt settles", 2, func() {
			m := next()
			g.Register(&m.Entry, m, reqs)
			a := tracker.Begin(1)
			a.End(queue.Success, nil)
		}},
		{"one more of a key that many owe", 0, func() {
			m := next()
			g.Register(&m.Entry, m, []int{2})
			m.Forget()
		}},
		{"through the work queue", 0, func() {
			q.Add(1, queue.Event)
			req, _, _ := q.Get()
			q.Done(req)
		}},
	} {
		test.does() // maps grow
		if n := testing.AllocsPerRun(1000, test.does); n > test.most {
			t.Errorf("%s: %v allocations, want at most %v", test.name, n, test.most)
		}
	}
}
