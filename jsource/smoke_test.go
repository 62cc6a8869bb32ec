package jsource_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

type row struct{ Phase string }

func TestSmoke(t *testing.T) {
	srv := natstest.Start(t)
	conn := srv.Conn()
	topic := nats.NewTopic[string, row]("kargo.requests")
	pub, err := jsource.NewPublisher(conn)
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	c, err := reconciler.New[string]("fleet_stage").Workers(4).Watch(jsource.Mapped(conn, topic,
		func(_ context.Context, e nats.Event[string, row]) []string { return []string{e.Key} })).
		Func(func(ctx context.Context, req string) (reconciler.Result, error) {
			n.Add(1)
			return reconciler.Result{}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Start(ctx) }()
	var r jsource.Receipt
	for i := range 1000 {
		if r, err = jsource.PublishCreated(ctx, pub, topic, string(rune('a'+i%20)), row{"x"}); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(r)
	time.Sleep(100 * time.Millisecond)
	wctx, wcancel := context.WithTimeout(ctx, 5*time.Second)
	defer wcancel()
	if err := jsource.WaitReconciled(wctx, conn, "fleet_stage-kargo_requests", r); err != nil {
		t.Fatal(err)
	}
	t.Log(n.Load(), c.Stats())
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
