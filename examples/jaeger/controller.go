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

// promotionRequest is a PromotionRequest, as far as the events carry it.
type promotionRequest struct {
	Stage string
	Phase string
}

// promotionRequests is the topic of their changes.
var promotionRequests = nats.NewTopic[int, promotionRequest]("kargo.promotionrequests")

const (
	// controllerName is the controller's, in the names of its spans, and its service.
	controllerName = "fleet_stage"
	workers        = 4
	// ackWait is how long after a crash JetStream hands out again what the crashed process held. The default, 30
	// seconds, is a good one; here everybody is waiting for it.
	ackWait = 2 * time.Second

	// The Stages that are not like others.
	hotStage     = "fleet/hot"     // has half of the PromotionRequests: one attempt covers many
	slowStage    = "fleet/slow"    // takes long
	failingStage = "fleet/failing" // fails three times, then succeeds
	missingStage = "fleet/missing" // can never be reconciled: its PromotionRequest becomes a dead letter

	// How long an attempt takes.
	usualTime = 5 * time.Millisecond
	hotTime   = 150 * time.Millisecond
	slowTime  = 900 * time.Millisecond
	failures  = 3 // of the failing Stage in a row
)

// fleetStage keeps the status of each Stage in line with its PromotionRequests: here it only takes its time.
type fleetStage struct {
	mu    sync.Mutex
	tries int // on the failing Stage since the last success
}

// stageOf maps a PromotionRequest to its Stage, the request that is reconciled.
func stageOf(_ context.Context, e nats.Event[int, promotionRequest]) []string {
	return []string{e.New.Stage}
}

func newFleetStage(conn *natsgo.Conn) (*reconciler.Controller[string], *jsource.Source[int, promotionRequest, string], error) {
	source := jsource.Mapped(conn, promotionRequests, stageOf).AckWait(ackWait)
	c, err := reconciler.New[string](controllerName).Watch(source).Workers(workers).Func(new(fleetStage).Reconcile)
	return c, source, err
}

// Reconcile writes the status of a Stage. What it starts with its context is part of the trace.
func (f *fleetStage) Reconcile(ctx context.Context, stage string) (reconciler.Result, error) {
	ctx, span := otel.Tracer("fleet").Start(ctx, "write the status")
	defer span.End()
	switch stage {
	case hotStage:
		return reconciler.Result{}, pause(ctx, hotTime)
	case slowStage:
		return reconciler.Result{}, pause(ctx, slowTime)
	case missingStage:
		return reconciler.Result{}, reconciler.TerminalError(errors.New("there is no such Stage"))
	case failingStage:
		if err := pause(ctx, usualTime); err != nil {
			return reconciler.Result{}, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.tries++; f.tries <= failures {
			return reconciler.Result{}, fmt.Errorf("the cluster does not answer (try %d)", f.tries)
		}
		f.tries = 0
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
