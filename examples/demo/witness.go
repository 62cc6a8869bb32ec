package main

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// witness notes, within a controller's process, which events lead to which attempts: an event that the
// mapper was given is noted for its Stage, and the next attempt that begins on that Stage is due to it.
// It treats both controllers alike and knows nothing of how an event arrived.
type witness struct {
	list sync.Once
	back func() // called when the event sources are running

	mu      sync.Mutex
	arrived map[stageKey][]int64 // changes whose events no attempt has begun for
}

func newWitness(back func()) *witness {
	return &witness{back: back, arrived: map[stageKey][]int64{}}
}

// listing notes that Stages are being listed. Sources start in order: those of events are running.
func (w *witness) listing() { w.list.Do(w.back) }

type stageMapper = nats.Mapper[uuid.UUID, promotionRequestRow, stageKey]

// mapper is next, observed.
func (w *witness) mapper(next stageMapper) stageMapper {
	return func(ctx context.Context, e nats.Event[uuid.UUID, promotionRequestRow]) []stageKey {
		c := change{Old: e.Old, New: e.New}
		number := c.row().Change
		stages := next(ctx, e)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, s := range stages {
			w.arrived[s] = append(w.arrived[s], number)
		}
		return stages
	}
}

// reconciler is next, observed: what had arrived before an attempt is written down in the transaction of
// its status, so that a kill leaves both or none.
func (w *witness) reconciler(next reconciler.Func[stageKey]) reconciler.Func[stageKey] {
	return func(ctx context.Context, stage stageKey) (reconciler.Result, error) {
		w.mu.Lock()
		events := w.arrived[stage]
		delete(w.arrived, stage)
		w.mu.Unlock()
		res, err := next(context.WithValue(ctx, eventsKey{}, events), stage)
		if err != nil {
			w.mu.Lock()
			w.arrived[stage] = append(events, w.arrived[stage]...) // for the next attempt
			w.mu.Unlock()
		}
		return res, err
	}
}

type eventsKey struct{}

// eventsOf are the changes whose events caused the attempt.
func eventsOf(ctx context.Context) []int64 {
	events, _ := ctx.Value(eventsKey{}).([]int64)
	return events
}
