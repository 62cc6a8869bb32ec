package bench

import (
	"context"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Contender is what is measured: it consumes the events of a run.
type Contender struct {
	Name string
	// Promise says in a few words what happens to an event that it has received when the process dies.
	Promise string
	// Unsafe marks one that can lose such an event.
	Unsafe bool
	// Core is fed over core NATS: nothing is stored.
	Core bool
	// Traced is the share of the events whose publisher has sampled their trace; the others' traces are not. With 0 the
	// publisher does not trace.
	Traced float64
	// Start starts to consume and returns once it does; stop ends it.
	Start func(ctx context.Context, in *Intake) (stop func() error, err error)
}

// Intake is what a Contender works with.
type Intake struct {
	Conn          *natsgo.Conn
	Topic         Topic
	Stream        jetstream.StreamConfig // exists, with all events or empty; its zero value for a Core
	Durable       string                 // how its durable consumer must be named
	Workers       int
	MaxAckPending int           // 0: its default
	AckWait       time.Duration // 0: its default
	Probe         *Probe

	work work
}

// Reconcile is an attempt on a key.
func (in *Intake) Reconcile(ctx context.Context, key string) {
	in.Probe.Attempt(key)
	in.work.do(ctx)
}

// ReconcileEvent is an attempt on an event, without a queue in between.
func (in *Intake) ReconcileEvent(ctx context.Context, e *Event) {
	in.Probe.Direct(e)
	in.work.do(ctx)
}

// ReconcileSequence is an attempt on a message that nobody has decoded.
func (in *Intake) ReconcileSequence(ctx context.Context, seq uint64) {
	in.Probe.DirectSequence(seq)
	in.work.do(ctx)
}
