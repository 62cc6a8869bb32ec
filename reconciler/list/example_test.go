package list_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/list"
)

// A controller that works on every open order there is, and looks for others every two minutes. Event
// sources would come before the list.
func ExampleNew() {
	openOrders := func(context.Context) ([]string, error) { return []string{"order-1"}, nil } // from the store

	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	controller, err := reconciler.New[string]("orders").
		Watch(list.New(openOrders).Every(2 * time.Minute)).
		Func(func(_ context.Context, order string) (reconciler.Result, error) {
			fmt.Println("reconciling", order)
			stop() // a real controller runs on
			return reconciler.Result{}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	if err := controller.Start(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: reconciling order-1
}

// A slow list that many replicas run: rarely, spread out, and with time enough.
func ExampleSource_Every() {
	all := func(context.Context) ([]string, error) { return nil, nil }
	fmt.Println(list.New(all).Every(time.Hour).Jitter(0.5).Timeout(10 * time.Minute))
	// Output: list source (every 1h0m0s)
}
