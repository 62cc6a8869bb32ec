package jsourcetest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	natsgo "github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/jsource/jsourcetest"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type order struct {
	Paid bool `json:"paid"`
}

var orders = nats.NewTopic[string, order]("shop.orders")

const (
	stream  = "shop_orders"
	durable = "clerk-shop_orders"
)

// clerk is the controller under test: it cannot cope with one order, and gives another up.
func clerk(t *testing.T, conn *natsgo.Conn) *reconciler.Controller[string] {
	t.Helper()
	c, err := reconciler.New[string]("clerk").Watch(jsource.Subject(conn, orders)).Workers(2).
		Func(func(_ context.Context, id string) (reconciler.Result, error) {
			switch id {
			case "lost":
				return reconciler.Result{}, reconciler.TerminalError(errors.New("no such order"))
			case "stuck":
				return reconciler.Result{}, errors.New("the till is busy")
			}
			return reconciler.Result{}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func publish(t *testing.T, srv *jsourcetest.Server, id string) jsource.Receipt {
	t.Helper()
	r, err := jsource.PublishCreated(t.Context(), srv.Publisher(), orders, id, order{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReconciled(t *testing.T) {
	srv := jsourcetest.Start(t)
	receipt := publish(t, srv, "o-1") // before the controller runs
	stop := jsourcetest.Run(t, clerk(t, srv.Conn()))
	srv.Reconciled(durable, receipt)
	srv.Restart()
	srv.Reconciled(durable, publish(t, srv, "o-2"))
	stop()
	stop() // does nothing
}

func TestDeadAndOwed(t *testing.T) {
	srv := jsourcetest.Start(t)
	stop := jsourcetest.Run(t, clerk(t, srv.Conn()))
	publish(t, srv, "lost")
	if l := srv.WaitDead(1)[0]; l.Request != "lost" || l.Reason != "terminal" {
		t.Errorf("the letter is %+v", l)
	}
	srv.Settled(stream, durable)
	publish(t, srv, "stuck")
	natstest.Eventually(t, "stuck is owed, and has failed", jsourcetest.Patience, func() error {
		if owed := srv.Owed(stream, durable); len(owed) != 1 || owed[0].Request != "stuck" || owed[0].Attempts == 0 {
			return fmt.Errorf("owed are %+v", owed)
		}
		return nil
	})
	stop()
}

// What does not start fails the test.
func TestRunFails(t *testing.T) {
	fake := &failing{TB: t}
	jsourcetest.Run(fake, starts{errors.New("no server")})()
	if !fake.failed {
		t.Error("nobody was told")
	}
}

type starts struct{ err error }

func (s starts) Start(context.Context) error { return s.err }

type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Cleanup(func())        {}
func (f *failing) Error(...any)          { f.failed = true }
func (f *failing) Errorf(string, ...any) { f.failed = true }
