package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/queue"
)

// order is a message of some source: it embeds its account and is told what became of it.
type order struct {
	queue.Entry[string]
	number int
}

func (o *order) Settled(bool) { fmt.Printf("order %d: acknowledge it\n", o.number) }

func (o *order) Superseded(queue.Message[string]) {
	fmt.Printf("order %d: acknowledge it early\n", o.number)
}

func (o *order) Died(customer string, d queue.Death) {
	fmt.Printf("order %d: %s will never work: %v\n", o.number, customer, d.Err)
	o.Buried(customer) // once that is stored somewhere
}

// An engine of one's own: wrap its reconcile function, and register each message before its requests are
// pushed.
func ExampleWrap() {
	tracker := queue.NewTracker[string]()
	source := tracker.NewGroup(queue.GroupOptions{})
	reconcile := queue.Wrap(tracker, func(_ context.Context, customer string) (time.Duration, error) {
		if customer == "mallory" {
			return 0, queue.Terminal(errors.New("no such customer"))
		}
		return 0, nil
	})

	first, second := &order{number: 1}, &order{number: 2}
	source.Register(&first.Entry, first, []string{"alice", "bob"})
	source.Register(&second.Entry, second, []string{"alice", "mallory"})
	for _, customer := range []string{"alice", "bob", "mallory"} {
		_, _ = reconcile(context.Background(), customer)
	}
	// Output:
	// order 1: acknowledge it
	// order 2: mallory will never work: terminal error: no such customer
	// order 2: acknowledge it
}

// A reconciler that returns "come back later" without having done anything must not settle its messages.
func ExampleWrapPolicy() {
	tracker := queue.NewTracker[string]()
	source := tracker.NewGroup(queue.GroupOptions{})
	limited := true
	reconcile := queue.WrapPolicy(tracker,
		func(later time.Duration, err error) queue.Outcome {
			if err == nil && later > 0 {
				return queue.Unfinished
			}
			return queue.DefaultPolicy(later, err)
		},
		func(context.Context, string) (time.Duration, error) {
			if limited {
				return time.Minute, nil
			}
			return 0, nil
		})

	o := &order{number: 1}
	source.Register(&o.Entry, o, []string{"alice"})
	_, _ = reconcile(context.Background(), "alice")
	fmt.Println("still owed:", o.Owes())
	limited = false
	_, _ = reconcile(context.Background(), "alice")
	// Output:
	// still owed: [alice]
	// order 1: acknowledge it
}

// Requests of events go before those that only the resync asks for, and each is queued once.
func ExampleQueue() {
	q := queue.New("customers", workqueue.DefaultTypedControllerRateLimiter[string]())
	q.Add("alice", queue.Resync)
	q.Add("bob", queue.Resync)
	q.Add("carol", queue.Event)
	q.Add("bob", queue.Event)
	q.ShutDown() // no more to come

	for {
		customer, cause, ok := q.Get()
		if !ok {
			return
		}
		fmt.Println(customer, cause)
		q.Forget(customer) // it succeeded
		q.Done(customer)
	}
	// Output:
	// carol event
	// bob event
	// alice resync
}

// What holds up the messages, and why.
func ExampleGroup_Holding() {
	tracker := queue.NewTracker[string]()
	source := tracker.NewGroup(queue.GroupOptions{})
	reconcile := queue.Wrap(tracker, func(context.Context, string) (time.Duration, error) {
		return 0, errors.New("out of stock")
	})
	for number := range 3 {
		o := &order{number: number}
		source.Register(&o.Entry, o, []string{"alice"})
	}
	_, _ = reconcile(context.Background(), "alice")
	for _, h := range source.Holding(10) {
		fmt.Printf("%s holds %d messages: %v\n", h.Request, h.Messages, h.LastErr)
	}
	// Output:
	// alice holds 3 messages: out of stock
}

// An attempt settles what was owed when it began. What came later it may not have seen: that is owed still.
func ExampleTracker_Begin() {
	tracker := queue.NewTracker[string]()
	source := tracker.NewGroup(queue.GroupOptions{})

	first, second := &order{number: 1}, &order{number: 2}
	source.Register(&first.Entry, first, []string{"alice"})
	attempt := tracker.Begin("alice")
	source.Register(&second.Entry, second, []string{"alice"}) // while the attempt runs
	attempt.End(queue.Success, nil)
	fmt.Println("order 2 still owes", second.Owes())
	// Output:
	// order 1: acknowledge it
	// order 2 still owes [alice]
}

// With Supersede a newer message stands for those before it, and with MaxAttempts no message is owed for ever.
func ExampleGroupOptions() {
	tracker := queue.NewTracker[string]()
	source := tracker.NewGroup(queue.GroupOptions{Supersede: true, MaxAttempts: 2})
	reconcile := queue.Wrap(tracker, func(context.Context, string) (time.Duration, error) {
		return 0, errors.New("out of stock")
	})

	for number := range 3 {
		o := &order{number: number}
		source.Register(&o.Entry, o, []string{"alice"})
	}
	for range 2 {
		_, _ = reconcile(context.Background(), "alice")
	}
	// Output:
	// order 0: acknowledge it early
	// order 1: acknowledge it early
	// order 2: alice will never work: out of stock
	// order 2: acknowledge it
}
