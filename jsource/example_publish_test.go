package jsource_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/jsource"
)

// Publish after the commit, with the values before and after it: sources filter by them. The receipt says where the
// event is stored, which is what WaitReconciled takes.
func ExamplePublishUpdated() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	old, updated := product{Maker: "ann", Price: 12}, product{Maker: "ann", Price: 15}
	receipt, err := jsource.PublishUpdated(context.Background(), publisher, products, "product-1", old, updated)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("sequence %d of stream %s\n", receipt.Sequence, receipt.Stream)
	// Output: sequence 1 of stream shop_products
}

// The ID is the change's, here the outbox row's: two changes of one product are two events, however often each is
// published.
func ExampleMsgID() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	outbox := []struct {
		id           string
		old, updated product
	}{
		{"change-1", product{Price: 12}, product{Price: 15}},
		{"change-2", product{Price: 15}, product{Price: 14}},
	}
	for range 2 { // the first time, say, it was killed before it had emptied the outbox
		for _, row := range outbox {
			receipt, err := jsource.PublishUpdated(context.Background(), publisher, products, "product-1", row.old, row.updated,
				jsource.MsgID(row.id))
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(row.id, "is event", receipt.Sequence, "published before:", receipt.Duplicate)
		}
	}
	// Output:
	// change-1 is event 1 published before: false
	// change-2 is event 2 published before: false
	// change-1 is event 1 published before: true
	// change-2 is event 2 published before: true
}

// Whoever comes first makes the stream, so publisher and source are told the same.
func ExamplePublisherStream() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx := context.Background()

	cfg := consumer.StreamConfig(products.Subject()) // the defaults
	cfg.MaxAge = 30 * 24 * time.Hour
	// cfg.Replicas = 3, on a cluster
	publisher, err := jsource.NewPublisher(conn, jsource.PublisherStream(cfg))
	if err != nil {
		log.Fatal(err)
	}
	source := jsource.Subject(conn, products).Stream(cfg) // for a controller's Watch
	if err := products.PublishCreated(publisher, "product-1", product{Maker: "ann"}); err != nil {
		log.Fatal(err)
	}

	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	stream, err := js.Stream(ctx, cfg.Name)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(source, "is kept in", cfg.Name, "for", stream.CachedInfo().Config.MaxAge)
	// Output: jsource shop.products.> is kept in shop_products for 720h0m0s
}
