package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// order is what the events carry.
type order struct {
	Customer string
	Total    int // in cents
}

// orders is the topic of their changes.
var orders = nats.NewTopic[int, order]("shop.orders")

const (
	// controllerName is the controller's, in the names of its spans, and its service.
	controllerName = "billing"
	workers        = 4
	// ackWait is how long after a crash JetStream hands out again what the crashed process held. The default, 30
	// seconds, is a good one; here everybody is waiting for it.
	ackWait = 2 * time.Second

	// The customers that are not like others.
	hotCustomer   = "hot"    // has half of the orders: one attempt covers many
	slowCustomer  = "slow"   // takes long
	flakyCustomer = "flaky"  // fails three times, then succeeds
	closedAccount = "closed" // can never be billed: its order becomes a dead letter

	// How long an attempt takes.
	usualTime     = 5 * time.Millisecond
	hotTime       = 150 * time.Millisecond
	slowTime      = 900 * time.Millisecond
	flakyFailures = 3
)

// billing keeps each customer's account in line with the orders: here it only takes its time.
type billing struct {
	mu    sync.Mutex
	tries int // on the flaky customer since the last success
}

// customerOf maps an order to its customer, the request that is reconciled.
func customerOf(_ context.Context, e nats.Event[int, order]) []string {
	return []string{e.New.Customer}
}

func newBilling(conn *natsgo.Conn) (*reconciler.Controller[string], *jsource.Source[int, order, string], error) {
	source := jsource.Mapped(conn, orders, customerOf).AckWait(ackWait)
	c, err := reconciler.New[string](controllerName).Watch(source).Workers(workers).Func(new(billing).Reconcile)
	return c, source, err
}

// Reconcile bills a customer. What it starts with its context is part of the trace.
func (b *billing) Reconcile(ctx context.Context, customer string) (reconciler.Result, error) {
	ctx, span := otel.Tracer("shop").Start(ctx, "write the account")
	defer span.End()
	switch customer {
	case hotCustomer:
		return reconciler.Result{}, pause(ctx, hotTime)
	case slowCustomer:
		return reconciler.Result{}, pause(ctx, slowTime)
	case closedAccount:
		return reconciler.Result{}, reconciler.TerminalError(errors.New("the account is closed"))
	case flakyCustomer:
		if err := pause(ctx, usualTime); err != nil {
			return reconciler.Result{}, err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.tries++; b.tries <= flakyFailures {
			return reconciler.Result{}, fmt.Errorf("the bank does not answer (try %d)", b.tries)
		}
		b.tries = 0
		return reconciler.Result{}, nil
	}
	return reconciler.Result{}, pause(ctx, usualTime)
}

// pause stands for work that takes d.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
