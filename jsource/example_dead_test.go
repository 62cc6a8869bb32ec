package jsource_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
)

// What was given up is kept, and says why. An Admin finds it from any process.
func ExampleAdmin_DeadLetters() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	giveUp(ctx, conn, "product-1") // a controller's Reconciler returned a TerminalError

	admin, err := jsource.NewAdmin(conn)
	if err != nil {
		log.Fatal(err)
	}
	for l, err := range admin.DeadLetters(ctx, jsource.LetterFilter{Reason: jsource.ReasonTerminal}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(l.ID, "of", l.Durable)
		fmt.Println(l.Request, "is given up:", l.Error)
		fmt.Printf("%s\n", l.Data)
	}
	// Output:
	// shop_products-dead/1 of products-shop_products
	// product-1 is given up: terminal error: no such maker
	// {"kind":"created","key":"product-1","new":{"Maker":"ann","Price":12}}
}

// Once the cause is mended, the event of a dead letter is published again, and the letter dropped.
func ExampleAdmin_Replay() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	giveUp(ctx, conn, "product-1") // a controller's Reconciler returned a TerminalError

	admin, err := jsource.NewAdmin(conn)
	if err != nil {
		log.Fatal(err)
	}
	letter, err := admin.DeadLetter(ctx, "shop_products-dead/1")
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := admin.Replay(ctx, letter)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("sequence %d of %s again, as %d\n", letter.Sequence, letter.Stream, receipt.Sequence)

	controller, err := reconciler.New[string]("products").Watch(jsource.Subject(conn, products)).
		Func(func(_ context.Context, key string) (reconciler.Result, error) {
			fmt.Println("reconciling", key)
			stop() // a real controller runs on
			return reconciler.Result{}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	if err := controller.Start(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// sequence 1 of shop_products again, as 2
	// reconciling product-1
}

// Letters may be dropped while they are listed.
func ExampleAdmin_Drop() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	giveUp(ctx, conn, "product-1") // a controller's Reconciler returned a TerminalError

	admin, err := jsource.NewAdmin(conn)
	if err != nil {
		log.Fatal(err)
	}
	for l, err := range admin.DeadLetters(ctx, jsource.LetterFilter{Durable: "products-shop_products"}) {
		if err != nil {
			log.Fatal(err)
		}
		if err := admin.Drop(ctx, l); err != nil {
			log.Fatal(err)
		}
		fmt.Println("dropped", l.ID)
	}
	_, err = admin.DeadLetter(ctx, "shop_products-dead/1")
	fmt.Println("gone:", errors.Is(err, jsource.ErrLetterNotFound))
	// Output:
	// dropped shop_products-dead/1
	// gone: true
}

// How each durable is doing that a source made: what waits, what is unsettled, and which requests hold it. It is
// what the command "jsource status" prints.
func ExampleAdmin_Reports() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()

	// Some process runs a controller that cannot cope with a product: it fails once, and then hangs.
	attempts, hangs := 0, make(chan struct{})
	controller, err := reconciler.New[string]("products").Watch(jsource.Subject(conn, products)).
		Logger(slog.New(slog.DiscardHandler)).Grace(0).
		Func(func(ctx context.Context, _ string) (reconciler.Result, error) {
			if attempts++; attempts == 1 {
				return reconciler.Result{}, errors.New("the printer is out of paper")
			}
			close(hangs)
			<-ctx.Done()
			return reconciler.Result{}, ctx.Err()
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
	stopped := make(chan error)
	go func() { stopped <- controller.Start(ctx) }()
	<-hangs

	admin, err := jsource.NewAdmin(conn)
	if err != nil {
		log.Fatal(err)
	}
	reports, err := admin.Reports(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range reports {
		fmt.Printf("%s: %d wait, %d unsettled, %d dead\n", r.Durable, r.Pending, r.Unsettled, r.Dead)
		for _, replica := range r.Replicas {
			for _, h := range replica.Holding {
				fmt.Printf("%s: failed %d times, running: %t, %s\n", h.Request, h.Attempts, h.Running, h.LastErr)
			}
		}
	}
	stop()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output:
	// products-shop_products: 0 wait, 1 unsettled, 0 dead
	// product-1: failed 1 times, running: true, the printer is out of paper
}
