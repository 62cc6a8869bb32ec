// Command quickstart is a whole controller with a durable source, and a publisher. It needs a NATS server with JetStream:
//
//	nats-server -js &
//	go -C examples run ./quickstart
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

type order struct {
	Phase string `json:"phase"`
}

var orders = nats.NewTopic[string, order]("shop.orders")

func main() {
	url := natsgo.DefaultURL
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	conn, err := natsgo.Connect(url)
	check(err)
	defer conn.Close()

	pub, err := jsource.NewPublisher(conn)
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	receipt, err := jsource.PublishCreated(ctx, pub, orders, "o-1", order{Phase: "new"})
	check(err) // the stream has it, though nobody listens yet

	c, err := reconciler.New[string]("clerk").Watch(jsource.Subject(conn, orders)).
		Func(func(_ context.Context, id string) (reconciler.Result, error) {
			fmt.Println("reconciling order", id)
			stop() // a real controller runs on
			return reconciler.Result{}, nil
		})
	check(err)
	check(c.Start(ctx)) // returns when what was reconciled is settled

	check(jsource.WaitReconciled(context.Background(), conn, "clerk-shop_orders", receipt))
	fmt.Println("settled, says the server")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
