package jsource_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// product is what a topic is about.
type product struct {
	Maker string
	Price int
}

// Topics are declared once, beside the store.
var products = nats.NewTopic[string, product]("shop.products")

// A controller that works on a maker whenever one of their products changes its price.
func ExampleMapped() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()

	makers := jsource.Mapped(conn, products, func(_ context.Context, e nats.Event[string, product]) []string {
		row := e.New
		if row == nil {
			row = e.Old
		}
		return []string{row.Maker}
	}).OnUpdate(func(old, updated product) bool { return old.Price != updated.Price })

	controller, err := reconciler.New[string]("invoices").Watch(makers).
		Func(func(_ context.Context, maker string) (reconciler.Result, error) {
			fmt.Println("reconciling", maker)
			stop() // a real controller runs on
			return reconciler.Result{}, nil
		})
	if err != nil {
		log.Fatal(err)
	}

	// Some other process has committed a product, and published that before the controller was up.
	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	if err := products.PublishCreated(publisher, "product-1", product{Maker: "ann", Price: 12}); err != nil {
		log.Fatal(err)
	}
	if err := controller.Start(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: reconciling ann
}

// A mapper that looks something up can fail: then the event is handed out again after a while.
func ExampleTryMapped() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()

	lookups := 0
	warehouses := func(context.Context, product) ([]string, error) {
		if lookups++; lookups == 1 {
			return nil, errors.New("the database is away")
		}
		return []string{"north"}, nil
	}
	source := jsource.TryMapped(conn, products,
		func(ctx context.Context, e nats.Event[string, product]) ([]string, error) {
			return warehouses(ctx, *e.New)
		},
	).Ignore(nats.Deleted)

	controller, err := reconciler.New[string]("stock").Watch(source).
		Func(func(_ context.Context, warehouse string) (reconciler.Result, error) {
			fmt.Println("reconciling", warehouse, "after", lookups, "lookups")
			stop() // a real controller runs on
			return reconciler.Result{}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	if err := products.PublishCreated(publisher, "product-1", product{Maker: "ann"}); err != nil {
		log.Fatal(err)
	}
	if err := controller.Start(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: reconciling north after 2 lookups
}

// The requests of a Subject source are the keys of the events.
func ExampleSubject() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()

	controller, err := reconciler.New[string]("products").Watch(jsource.Subject(conn, products)).
		Func(func(_ context.Context, key string) (reconciler.Result, error) {
			fmt.Println("reconciling", key)
			stop() // a real controller runs on
			return reconciler.Result{}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	if err := products.PublishDeleted(publisher, "product-1", product{Maker: "ann"}); err != nil {
		log.Fatal(err)
	}
	if err := controller.Start(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: reconciling product-1
}

// An outbox publishes each change under the id of the change: however often it does so, there is one event.
func ExamplePublishCreated() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx := context.Background()
	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // the first time, say, the process was killed before it noted that it had published
		receipt, err := jsource.PublishCreated(ctx, publisher, products, "product-1", product{Maker: "ann"},
			jsource.MsgID("transaction-4711"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%+v\n", receipt)
	}
	// Output:
	// {Stream:shop_products Sequence:1 Duplicate:false}
	// {Stream:shop_products Sequence:1 Duplicate:true}
}

// A Publisher takes the place of a connection wherever a topic publishes: it returns when the event is stored.
func ExamplePublisher() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	publisher, err := jsource.NewPublisher(conn, jsource.PublisherTimeout(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	var p nats.Publisher = publisher // where conn was before
	fmt.Println(products.PublishUpdated(p, "product-1", product{Price: 12}, product{Price: 15}))
	// Output: <nil>
}

// Whoever has published an event can wait until a controller has reconciled it: a test, say, or an API that
// answers when the change is in effect.
func ExampleWaitReconciled() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	begun := make(chan struct{})
	controller, err := reconciler.New[string]("products").Watch(jsource.Subject(conn, products)).
		Func(func(_ context.Context, key string) (reconciler.Result, error) {
			fmt.Println("reconciling", key)
			close(begun)
			return reconciler.Result{}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- controller.Start(ctx) }()

	receipt, err := jsource.PublishCreated(ctx, publisher, products, "product-1", product{Maker: "ann"})
	if err != nil {
		log.Fatal(err)
	}
	<-begun // before its first start the controller's durable does not exist, which would be an error
	err = jsource.WaitReconciled(ctx, conn, "products-shop_products", receipt)
	var dead *jsource.DeadLetterError
	switch {
	case errors.As(err, &dead):
		fmt.Println("given up:", dead.Sequences)
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println("reconciled")
	}
	stop()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output:
	// reconciling product-1
	// reconciled
}

// An engine that is not this module's wraps its function, gives its source the tracker, and calls Drain when
// it stops.
func ExampleSource_Track() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	tracker := queue.NewTracker[string]()
	reconcile := queue.Wrap(tracker, func(_ context.Context, key string) (reconciler.Result, error) {
		fmt.Println("reconciling", key)
		return reconciler.Result{}, nil
	})
	source := jsource.Subject(conn, products).Durable("products").Track(tracker)

	// The engine: it hands its source a channel, and works on what comes out of it.
	requests := make(chan string)
	if err := source.Start(ctx, requests); err != nil {
		log.Fatal(err)
	}
	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	if err := products.PublishCreated(publisher, "product-1", product{Maker: "ann"}); err != nil {
		log.Fatal(err)
	}
	if _, err := reconcile(ctx, <-requests); err != nil {
		log.Fatal(err)
	}

	// Its workers have stopped.
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println("drained:", source.Drain(grace))
	// Output:
	// reconciling product-1
	// drained: <nil>
}
