package jsource_test

import (
	"context"
	"errors"
	"log"
	"log/slog"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
)

// connect is what the examples have instead of nats.Connect with the address of a server: one of their own,
// which is gone when they call the function that is returned.
func connect() (conn *natsgo.Conn, gone func()) { return natstest.ConnectExample() }

// giveUp makes a dead letter, as a controller does whose Reconciler says that retrying cannot help.
func giveUp(ctx context.Context, conn *natsgo.Conn, key string) {
	ctx, stop := context.WithCancel(ctx)
	begun := make(chan struct{})
	controller, err := reconciler.New[string]("products").Watch(jsource.Subject(conn, products)).
		Logger(slog.New(slog.DiscardHandler)).
		Func(func(context.Context, string) (reconciler.Result, error) {
			close(begun)
			return reconciler.Result{}, reconciler.TerminalError(errors.New("no such maker"))
		})
	if err != nil {
		log.Fatal(err)
	}
	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := jsource.PublishCreated(ctx, publisher, products, key, product{Maker: "ann", Price: 12})
	if err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- controller.Start(ctx) }()
	<-begun
	var dead *jsource.DeadLetterError
	if err := jsource.WaitReconciled(ctx, conn, "products-shop_products", receipt); !errors.As(err, &dead) {
		log.Fatal(err)
	}
	stop()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
}
