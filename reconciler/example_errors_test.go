package reconciler_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/levelstream/jsource/reconciler"
)

// A failure is retried with backoff, a panic too; an error that retrying cannot help is marked as such.
func ExampleTerminalError() {
	ctx, stop := context.WithCancel(context.Background())
	attempts := 0
	c, err := reconciler.New[string]("invoices").
		Watch(customers{"alice"}).
		Func(func(_ context.Context, customer string) (reconciler.Result, error) {
			switch attempts++; attempts {
			case 1:
				fmt.Println(customer, "fails")
				return reconciler.Result{}, errors.New("the database is down")
			case 2:
				fmt.Println(customer, "panics")
				panic("a bug")
			default:
				fmt.Println(customer, "will never work")
				stop()
				return reconciler.Result{}, reconciler.TerminalError(errors.New("no such customer"))
			}
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Start(ctx); err != nil {
		fmt.Println(err)
	}
	stats := c.Stats()
	fmt.Printf("%d attempts, %d failed, %d of them by a panic\n", stats.Attempts, stats.Failed, stats.Panics)
	// Output:
	// alice fails
	// alice panics
	// alice will never work
	// 3 attempts, 3 failed, 1 of them by a panic
}

// The Builder tells everything that is wrong at once.
func ExampleBuilder_Func() {
	_, err := reconciler.New[string]("invoices").Workers(0).Func(nil)
	fmt.Println(err)
	// Output:
	// building controller "invoices": 0 workers: at least 1 is needed
	// the Reconciler is nil
	// it watches no source; add one with Watch
}
