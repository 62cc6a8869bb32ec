package consumer_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// till is a Handler. It decides each message when its work is done, which may take as long as it likes: heartbeats keep
// the message meanwhile.
type till struct{ ended chan consumer.Ending }

// Handle gets one message after the other. What takes long goes to other goroutines.
func (t *till) Handle(m *consumer.Message) {
	fmt.Printf("%s %d, delivery %d: %q\n", m.Subject(), m.Sequence(), m.Deliveries(), m.Data())
	switch {
	case len(m.Data()) == 0:
		m.Term() // it will never work
	case m.Deliveries() == 1:
		m.GiveBack(0) // the drawer is stuck; perhaps another replica's is not
	default:
		m.Ack() // done
	}
}

// Ended learns what the server has confirmed.
func (t *till) Ended(_ *consumer.Message, how consumer.Ending) {
	if how == consumer.Acked || how == consumer.Termed {
		t.ended <- how
	}
}

// Recovered learns that the durable or its stream was made anew.
func (t *till) Recovered(reason string) { log.Print(reason) }

// A durable consumer without a controller: messages, and a verdict on each that the server has confirmed.
func ExampleOpen() {
	conn, gone := natstest.ConnectExample() // nats.Connect(url)
	defer gone()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}

	c, err := consumer.Open(ctx, js, consumer.Config{Subjects: []string{"orders.>"}, Durable: "till"})
	if err != nil {
		log.Fatal(err)
	}
	t := &till{ended: make(chan consumer.Ending, 2)}
	if err := c.Start(t); err != nil {
		log.Fatal(err)
	}
	if _, err := js.Publish(ctx, "orders.paid", []byte("12 €")); err != nil {
		log.Fatal(err)
	}
	fmt.Println("settled:", <-t.ended)
	if _, err := js.Publish(ctx, "orders.paid", nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println("settled:", <-t.ended)
	if err := c.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// orders.paid 1, delivery 1: "12 €"
	// orders.paid 1, delivery 2: "12 €"
	// settled: ack
	// orders.paid 2, delivery 1: ""
	// settled: term
}

// What is made when no stream holds a subject tree. A configuration of one's own starts from it.
func ExampleStreamConfig() {
	cfg := consumer.StreamConfig("shop.orders.>")
	fmt.Println(cfg.Name, cfg.Subjects, cfg.Storage, cfg.Retention, cfg.MaxAge, cfg.Duplicates, cfg.Replicas)
	// Output: shop_orders [shop.orders.>] File Limits 168h0m0s 2m0s 1
}
