package nats_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// In a controller, the source logs where the controller does.
func TestInAController(t *testing.T) {
	conn, log := newConn(t), &logLines{}
	reconciled := make(chan string)
	c, err := reconciler.New[string]("orders").
		Logger(slog.New(slog.NewTextHandler(log, nil))).
		Watch(nats.Subject(conn, orders)).
		Func(func(_ context.Context, key string) (reconciler.Result, error) {
			reconciled <- key
			return reconciler.Result{}, nil
		})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()

	eventually(t, "subscribed", func() bool { return conn.NumSubscriptions() == 1 })
	must(t, conn.Publish("shop.orders.created", []byte(`{`)))
	must(t, orders.PublishCreated(conn, "a", order{}))
	expect(t, reconciled, "a")
	stop()
	must(t, receive(t, done))
	eventually(t, "unsubscribed", func() bool { return conn.NumSubscriptions() == 0 })
	for _, want := range []string{`controller=orders`, `source 1 (NATS source on`, "not valid JSON"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q: %s", want, log)
		}
	}
}
