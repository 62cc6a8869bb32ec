package reconciler_test

import (
	"context"
	"fmt"

	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
)

// inbox is a source of messages that must be acknowledged: what each owes is registered before it is
// pushed.
type inbox struct{ stop func() }

type letter struct {
	queue.Entry[string]
	about []string
	inbox *inbox
}

func (l *letter) Settled(bool) {
	fmt.Println("acknowledged: a letter about", l.about)
	l.inbox.stop()
}
func (l *letter) Superseded(queue.Message[string]) { l.Settled(false) }
func (l *letter) Died(req string, _ queue.Death)   { l.Buried(req) }

func (i *inbox) Start(ctx context.Context, out chan<- string) error {
	h, ok := reconciler.FromContext(ctx)
	if !ok {
		return fmt.Errorf("the inbox must be started by a Controller")
	}
	letters := reconciler.TrackerFrom[string](ctx).NewGroup(queue.GroupOptions{})
	h.OnStop(func(context.Context) error {
		letters.Stop() // attempts that begin from now on count for nothing
		return nil
	})
	go func() {
		l := &letter{about: []string{"alice", "bob"}, inbox: i}
		if !letters.Register(&l.Entry, l, l.about) {
			return // the stop came first
		}
		for _, req := range l.about {
			select {
			case out <- req:
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// A source that is told what became of its messages.
func ExampleTrackerFrom() {
	ctx, stop := context.WithCancel(context.Background())
	c, err := reconciler.New[string]("invoices").
		Watch(&inbox{stop: stop}).
		Func(func(_ context.Context, customer string) (reconciler.Result, error) {
			fmt.Println("invoices of", customer)
			return reconciler.Result{}, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Start(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// invoices of alice
	// invoices of bob
	// acknowledged: a letter about [alice bob]
}
