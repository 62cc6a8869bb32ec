package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/levelstream/jsource/internal/bench"
)

// controllerRuntime is a controller of controller-runtime that watches a channel, which a core-NATS
// subscription feeds.
func controllerRuntime() bench.Contender {
	return bench.Contender{
		Name: "controller-runtime", Core: true, Unsafe: true,
		Promise: "lost, as is what is published while it is away",
		Start:   startControllerRuntime,
	}
}

func startControllerRuntime(ctx context.Context, in *bench.Intake) (func() error, error) {
	unique := true // each run has a controller of this name
	logger := logr.Discard()
	c, err := controller.NewUnmanaged("bench", controller.Options{
		MaxConcurrentReconciles: in.Workers,
		SkipNameValidation:      &unique,
		LogConstructor:          func(*reconcile.Request) logr.Logger { return logger },
		Logger:                  logger,
		Reconciler: reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			in.Reconcile(ctx, r.Name)
			return reconcile.Result{}, nil
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("making the controller: %w", err)
	}
	events := make(chan event.GenericEvent)
	if err := c.Watch(source.Channel(events, &handler.EnqueueRequestForObject{})); err != nil {
		return nil, fmt.Errorf("watching the channel: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	sub, err := in.Conn.Subscribe(in.Topic.Subject(), func(m *nats.Msg) {
		var e bench.Event
		if json.Unmarshal(m.Data, &e) != nil || e.New == nil {
			return
		}
		in.Probe.Received(&e)
		select {
		case events <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: e.Key}}}:
		case <-ctx.Done():
		}
	})
	if err == nil {
		err = in.Conn.FlushTimeout(10 * time.Second)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("subscribing: %w", err)
	}
	return func() error {
		_ = sub.Unsubscribe() // the connection is closed next
		cancel()
		return <-ended
	}, nil
}
