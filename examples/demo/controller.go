package main

import (
	"context"
	"time"

	"github.com/google/uuid"
	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/list"
	"github.com/levelstream/jsource/reconciler/nats"
)

// This file is what the author of a controller writes: everything else in this folder is there to feed
// it, to break it and to measure it.

const (
	workers = 16
	// work is how long a reconcile takes besides reading and writing: one that asks an API server, say.
	work = 20 * time.Millisecond
	// ackWait is how long after a crash JetStream hands out again what the crashed process held. The
	// default, 30 seconds, is a good one; here everybody is waiting for it.
	ackWait = 2 * time.Second
)

// stageKey is the request that is reconciled: one Stage. Next to Kubernetes it is a reconcile.Request.
type stageKey struct{ Project, Name string }

// A requestTopic carries the changes of PromotionRequests.
type requestTopic = nats.Topic[uuid.UUID, promotionRequestRow]

// requestEvents is declared once, beside the store, with a prefix like "kargo.promotionrequests". Only
// here does each run have one of its own, so that the demo meets nobody on a server in use.
func requestEvents(prefix string) requestTopic {
	return nats.NewTopic[uuid.UUID, promotionRequestRow](prefix)
}

// stageOf maps an event to the Stage that the row belongs to.
func stageOf(_ context.Context, e nats.Event[uuid.UUID, promotionRequestRow]) []stageKey {
	row := e.New
	if row == nil {
		row = e.Old
	}
	return []stageKey{{Project: row.Project, Name: row.Stage}}
}

// phaseChanged lets no update through that a Stage does not care about.
func phaseChanged(old, updated promotionRequestRow) bool { return old.Phase != updated.Phase }

// fleetStage keeps the status of each Stage in line with the Stage's PromotionRequests.
type fleetStage struct {
	requests *store    // PromotionRequests, as the API server commits them
	statuses *statuses // what this controller says of the Stages
	seen     *witness  // for the demo's accounts: notes which event leads to which attempt
}

// overCoreNATS is the controller as it was.
func (f *fleetStage) overCoreNATS(conn *natsgo.Conn, topic requestTopic, resync time.Duration) (
	*reconciler.Controller[stageKey], error,
) {
	return f.watching(
		nats.Mapped(conn, topic, f.seen.mapper(stageOf)).
			OnUpdate(phaseChanged),
		resync)
}

// overJetStream is the controller as it is to be: one word is another.
func (f *fleetStage) overJetStream(conn *natsgo.Conn, topic requestTopic, resync time.Duration) (
	*reconciler.Controller[stageKey], *durableSource, error,
) {
	events := jsource.Mapped(conn, topic, f.seen.mapper(stageOf)).
		OnUpdate(phaseChanged).
		AckWait(ackWait)
	c, err := f.watching(events, resync)
	return c, events, err
}

// watching builds the controller, the same for both.
func (f *fleetStage) watching(events reconciler.Source[stageKey], resync time.Duration) (
	*reconciler.Controller[stageKey], error,
) {
	return reconciler.New[stageKey]("fleet_stage").
		// The events first, so that they are subscribed to while the list is made.
		Watch(events).
		// Every Stage there is, in case an event was lost.
		Watch(list.New(f.listStages).Every(resync)).
		Workers(workers).
		Func(f.seen.reconciler(f.Reconcile))
}

type durableSource = jsource.Source[uuid.UUID, promotionRequestRow, stageKey]

func (f *fleetStage) listStages(ctx context.Context) ([]stageKey, error) {
	f.seen.listing()
	return f.requests.Stages(ctx)
}

// Reconcile reads the Stage's PromotionRequests and writes what they mean for the Stage. It returns when
// that is committed.
func (f *fleetStage) Reconcile(ctx context.Context, stage stageKey) (reconciler.Result, error) {
	state, err := f.requests.Stage(ctx, stage)
	if err != nil {
		return reconciler.Result{}, err
	}
	select {
	case <-time.After(work):
	case <-ctx.Done():
		return reconciler.Result{}, context.Cause(ctx)
	}
	changed, err := f.statuses.Write(ctx, stage, statusOf(state))
	return reconciler.Result{Changed: changed}, err
}

// statusOf is the status of a Stage with such PromotionRequests.
func statusOf(state stageState) stageStatus {
	s := stageStatus{Requests: len(state.Requests), Seen: state.Change}
	var newest int64
	for _, r := range state.Requests {
		if !r.Phase.terminal() {
			s.Open++
		}
		if r.Change >= newest {
			newest, s.Phase = r.Change, r.Phase
		}
	}
	return s
}
