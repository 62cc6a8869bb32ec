package reconciler_test

import (
	"context"
	"fmt"
	"time"

	"github.com/levelstream/jsource/reconciler"
)

// customers is a source: it pushes what it knows and returns.
type customers []string

func (c customers) Start(ctx context.Context, out chan<- string) error {
	go func() {
		for _, name := range c {
			select {
			case out <- name:
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

func Example() {
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext in a real program
	left := 3
	c, err := reconciler.New[string]("invoices").
		Watch(customers{"alice", "bob", "alice"}).
		Workers(1).
		Timeout(time.Minute).
		Func(func(_ context.Context, customer string) (reconciler.Result, error) {
			fmt.Println("invoices of", customer)
			if left--; left == 0 {
				stop()
			}
			return reconciler.Result{RequeueAfter: 10 * time.Millisecond}, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stopped cleanly")
	// Unordered output:
	// invoices of alice
	// invoices of bob
	// invoices of alice
	// stopped cleanly
}
