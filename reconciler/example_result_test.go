package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/list"
)

// A nil error settles the messages that asked for the attempt, also with RequeueAfter, which only looks again later.
// Unfinished keeps them: if the process is killed now, they come again.
func ExampleResult() {
	ctx, stop := context.WithCancel(context.Background())
	begun := false
	c, err := reconciler.New[string]("backups").
		Watch(customers{"alice"}).
		Func(func(_ context.Context, customer string) (reconciler.Result, error) {
			if !begun {
				begun = true
				fmt.Println("a job backs up", customer)
				return reconciler.Result{Unfinished: true, RequeueAfter: 10 * time.Millisecond}, nil
			}
			fmt.Println("the job is done")
			stop() // a real controller runs on
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
	// a job backs up alice
	// the job is done
}

// A Reconciler that says Changed when it had something to do shows whether the list is needed: what only the list asked
// for, and changed something, was missed by events.
func ExampleController_Stats() {
	ctx, stop := context.WithCancel(context.Background())
	customers := func(context.Context) ([]string, error) { return []string{"alice", "bob"}, nil }
	left := 2
	c, err := reconciler.New[string]("invoices").
		Watch(list.New(customers)).
		Func(func(_ context.Context, customer string) (reconciler.Result, error) {
			if left--; left == 0 {
				stop() // a real controller runs on
			}
			return reconciler.Result{Changed: customer == "bob"}, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Start(ctx); err != nil {
		fmt.Println(err)
	}
	stats := c.Stats()
	fmt.Printf("the list alone caused %d attempts, and %d found work\n", stats.ResyncOnly, stats.ResyncChanged)
	// Output: the list alone caused 2 attempts, and 1 found work
}

// A Reconciler that means "not yet" by RequeueAfter: the policy keeps messages owed until it has done its work.
func ExampleBuilder_Outcome() {
	ctx, stop := context.WithCancel(context.Background())
	limited := true
	c, err := reconciler.New[string]("invoices").
		Watch(customers{"alice"}).
		Outcome(func(res reconciler.Result, err error) queue.Outcome {
			if err == nil && res.RequeueAfter > 0 {
				return queue.Unfinished
			}
			return queue.DefaultPolicy(res, err)
		}).
		Func(func(_ context.Context, customer string) (reconciler.Result, error) {
			if limited {
				limited = false
				fmt.Println("not yet")
				return reconciler.Result{RequeueAfter: 10 * time.Millisecond}, nil
			}
			fmt.Println("invoices of", customer)
			stop() // a real controller runs on
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
	// not yet
	// invoices of alice
}

// Retries that begin later than by default, and never are more than a minute apart.
func ExampleBuilder_RateLimiter() {
	_, err := reconciler.New[string]("invoices").
		Watch(customers{"alice"}).
		RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)).
		Func(func(context.Context, string) (reconciler.Result, error) {
			return reconciler.Result{}, errors.New("the database is down")
		})
	fmt.Println(err)
	// Output: <nil>
}

// What a Reconciler logs says what it is about.
func ExampleLoggerFrom() {
	ctx, stop := context.WithCancel(context.Background())
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{} // it differs from run to run
			}
			return a
		},
	}))
	c, err := reconciler.New[string]("invoices").
		Watch(customers{"alice"}).
		Logger(logger).
		Func(func(ctx context.Context, _ string) (reconciler.Result, error) {
			reconciler.LoggerFrom(ctx).Warn("an invoice is overdue", "days", 30)
			stop() // a real controller runs on
			return reconciler.Result{}, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Start(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: level=WARN msg="an invoice is overdue" controller=invoices request=alice attempt=1 cause=event days=30
}

// Another engine's attempts get spans, as a Controller's do: each is linked with the messages that it covers. (A
// durable source that is given a tracker with Track sees to it by itself.)
func ExampleObserve() {
	tracker := queue.NewTracker[string]()
	tracker.SetObserver(reconciler.Observe[string]("invoices"))
	reconcile := queue.Wrap(tracker, func(_ context.Context, customer string) (time.Duration, error) {
		fmt.Println("invoices of", customer)
		return 0, nil
	})
	_, _ = reconcile(context.Background(), "alice") // what the engine's workers call
	// Output: invoices of alice
}
