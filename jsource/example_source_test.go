package jsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
)

// Each replica keeps something of its own, a cache say, and so each gets every event.
func ExampleSource_PerReplica() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	if err := products.PublishCreated(publisher, "product-1", product{Maker: "ann"}); err != nil {
		log.Fatal(err)
	}

	for _, pod := range []string{"cache-0", "cache-1"} { // two processes; pod is what os.Hostname says in a StatefulSet
		ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
		defer stop()
		controller, err := reconciler.New[string]("cache").Watch(jsource.Subject(conn, products).PerReplica(pod)).
			Func(func(_ context.Context, key string) (reconciler.Result, error) {
				fmt.Println(pod, "reconciles", key)
				stop() // a real controller runs on
				return reconciler.Result{}, nil
			})
		if err != nil {
			log.Fatal(err)
		}
		if err := controller.Start(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// cache-0 reconciles product-1
	// cache-1 reconciles product-1
}

// A product that changes often and cannot be reconciled does not fill MaxAckPending: its last event stands for those
// before it.
func ExampleSource_Supersede() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()

	source := jsource.Subject(conn, products).Supersede()
	attempts, begun := 0, make(chan struct{})
	controller, err := reconciler.New[string]("labels").Watch(source).Logger(slog.New(slog.DiscardHandler)).
		Func(func(context.Context, string) (reconciler.Result, error) {
			if attempts++; attempts == 1 {
				close(begun)
			}
			return reconciler.Result{}, errors.New("the printer is out of paper")
		})
	if err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- controller.Start(ctx) }()

	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	var receipts []jsource.Receipt
	for price := range 3 {
		r, err := jsource.PublishUpdated(ctx, publisher, products, "product-1", product{Price: price}, product{Price: price + 1})
		if err != nil {
			log.Fatal(err)
		}
		receipts = append(receipts, r)
	}
	<-begun
	if err := jsource.WaitReconciled(ctx, conn, "labels-shop_products", receipts[1]); err != nil {
		log.Fatal(err)
	}
	for _, h := range source.Status(10).Holding {
		fmt.Printf("%s holds %d of %d events: %v\n", h.Request, h.Messages, len(receipts), h.LastErr)
	}
	stop()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output: product-1 holds 1 of 3 events: the printer is out of paper
}

// What fails again and again is given up, becomes a dead letter, and no longer holds up anything.
func ExampleSource_MaxAttempts() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()

	attempts, begun := 0, make(chan struct{})
	controller, err := reconciler.New[string]("labels").Watch(jsource.Subject(conn, products).MaxAttempts(3)).
		Logger(slog.New(slog.DiscardHandler)).
		Func(func(context.Context, string) (reconciler.Result, error) {
			if attempts++; attempts == 1 {
				close(begun)
			}
			return reconciler.Result{}, errors.New("the printer is out of paper")
		})
	if err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- controller.Start(ctx) }()

	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := jsource.PublishCreated(ctx, publisher, products, "product-1", product{Maker: "ann"})
	if err != nil {
		log.Fatal(err)
	}
	<-begun
	var dead *jsource.DeadLetterError
	if err := jsource.WaitReconciled(ctx, conn, "labels-shop_products", receipt); errors.As(err, &dead) {
		fmt.Println("given up:", dead.Sequences)
	}

	admin, err := jsource.NewAdmin(conn)
	if err != nil {
		log.Fatal(err)
	}
	for l, err := range admin.DeadLetters(ctx, jsource.LetterFilter{Reason: jsource.ReasonAttempts}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(l.Request, "failed", l.Attempts, "times:", l.Error)
	}
	stop()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output:
	// given up: [1]
	// product-1 failed 3 times: the printer is out of paper
}

// Somebody else has made the stream and the durable, and this controller's user may not.
func ExampleSource_Bind() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()

	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	stream, err := js.CreateStream(ctx, consumer.StreamConfig(products.Subject()))
	if err != nil {
		log.Fatal(err)
	}
	_, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "invoices", FilterSubject: products.Subject(),
		AckPolicy:     jetstream.AckExplicitPolicy, // a must
		MaxDeliver:    -1,                          // no limit, or the server would drop messages
		MaxAckPending: 1000,
	})
	if err != nil {
		log.Fatal(err)
	}

	source := jsource.Subject(conn, products).Durable("invoices").Bind().NoDeadLetters()
	controller, err := reconciler.New[string]("invoices").Watch(source).
		Func(func(_ context.Context, key string) (reconciler.Result, error) {
			fmt.Println("reconciling", key)
			stop() // a real controller runs on
			return reconciler.Result{}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	if err := products.PublishCreated(conn, "product-1", product{Maker: "ann"}); err != nil {
		log.Fatal(err)
	}
	if err := controller.Start(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: reconciling product-1
}

// What a process can say of its own source. Here the Reconciler asks, in the second attempt, what became of the first.
func ExampleSource_Status() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()

	source, attempts := jsource.Subject(conn, products), 0
	controller, err := reconciler.New[string]("labels").Watch(source).Logger(slog.New(slog.DiscardHandler)).
		Func(func(context.Context, string) (reconciler.Result, error) {
			if attempts++; attempts == 1 {
				return reconciler.Result{}, errors.New("the printer is out of paper")
			}
			st := source.Status(10)
			fmt.Println(st.Durable, "holds", st.Held)
			for _, h := range st.Holding {
				fmt.Printf("%s holds %d: failed %d times, %v\n", h.Request, h.Messages, h.Attempts, h.LastErr)
			}
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
	// Output:
	// labels-shop_products holds 1
	// product-1 holds 1: failed 1 times, the printer is out of paper
}

// Readiness: Healthy says what is wrong. A replica that waits to become the leader has not started its source; Check
// lets that pass, and is what controller-runtime's AddReadyzCheck takes.
func ExampleSource_Check() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()

	source := jsource.Subject(conn, products)
	ready := func(w http.ResponseWriter, r *http.Request) {
		if err := source.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
	w := httptest.NewRecorder()
	ready(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	fmt.Println(w.Code)
	fmt.Println(source.Healthy())
	// Output:
	// 200
	// the source was not started; another replica may lead
}

// The page is mounted where the process serves what is not for everybody: it shows keys and errors.
func ExampleView() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()

	source := jsource.Subject(conn, products)
	mux := http.NewServeMux()
	mux.Handle("/debug/jsource", jsource.View(source)) // and more of them

	controller, err := reconciler.New[string]("labels").Watch(source).
		Func(func(context.Context, string) (reconciler.Result, error) {
			// Somebody looks: people see a page, and programs get JSON.
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/jsource?format=json", nil))
			var views []jsource.SourceView
			if err := json.Unmarshal(w.Body.Bytes(), &views); err != nil {
				log.Fatal(err)
			}
			for _, v := range views {
				fmt.Println(v.Controller, "holds", v.Held, "of at most", v.Limit)
				for _, h := range v.Holding {
					fmt.Println(h.Request, "is being reconciled:", h.Running)
				}
			}
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
	// Output:
	// labels holds 1 of at most 1000
	// product-1 is being reconciled: true
}
