package jsourcetest_test

import (
	"context"
	"testing"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/jsource/jsourcetest"
	"github.com/levelstream/jsource/reconciler"
)

// The test of a controller, on a real server in its process.
func Example() {
	t := &testing.T{} // the test's own

	srv := jsourcetest.Start(t)
	controller, err := reconciler.New[string]("clerk").Watch(jsource.Subject(srv.Conn(), orders)).
		Func(func(_ context.Context, id string) (reconciler.Result, error) {
			return reconciler.Result{}, nil // what is tested
		})
	if err != nil {
		t.Fatal(err)
	}
	stop := jsourcetest.Run(t, controller)

	receipt, err := jsource.PublishCreated(t.Context(), srv.Publisher(), orders, "o-1", order{})
	if err != nil {
		t.Fatal(err)
	}
	srv.Reconciled("clerk-shop_orders", receipt) // <controller>-<topic>
	srv.Restart()                                // the controller outlasts it

	stop()
	if dead := srv.Dead(); len(dead) > 0 {
		t.Errorf("%s is given up: %s", dead[0].Request, dead[0].Error)
	}
}
