package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// The names of the two sources of this module.
const (
	Core    = "core"
	JSource = "jsource"
)

// Ours are the sources of this module, and what tracing makes of the durable one.
func Ours() []Contender {
	core := Contender{
		Name: Core, Core: true, Unsafe: true,
		Promise: "lost, as is what is published while it is away",
		Start: func(ctx context.Context, in *Intake) (func() error, error) {
			return control(ctx, in, nats.Mapped(in.Conn, in.Topic, in.mapped))
		},
	}
	durable := Contender{
		Name:    JSource,
		Promise: "reconciled again: acked after its reconcile, confirmed",
		Start: func(ctx context.Context, in *Intake) (func() error, error) {
			src := jsource.Mapped(in.Conn, in.Topic, in.mapped).Stream(in.Stream).Durable(in.Durable)
			if in.MaxAckPending > 0 {
				src.MaxAckPending(in.MaxAckPending)
			}
			if in.AckWait > 0 {
				src.AckWait(in.AckWait)
			}
			return control(ctx, in, src)
		},
	}
	return []Contender{
		core, durable,
		untraced(durable, "jsource-untraced", 0.01),
		sampled(durable, "jsource-sampled", 0.01),
		sampled(durable, "jsource-traced", 1),
	}
}

func (in *Intake) mapped(_ context.Context, e Event) []string {
	in.Probe.Received(&e)
	return []string{e.Key}
}

// started is a source without requests: that it is started says that those before it are.
type started chan struct{}

// Start implements reconciler.Source.
func (s started) Start(context.Context, chan<- string) error {
	close(s)
	return nil
}

// stopWithin bounds how long a controller may take to stop.
const stopWithin = 30 * time.Second

// control runs a controller that watches src.
func control(ctx context.Context, in *Intake, src reconciler.Source[string]) (func() error, error) {
	running := make(started)
	c, err := reconciler.New[string]("bench").
		Watch(src, running).
		Workers(in.Workers).
		Logger(slog.New(slog.DiscardHandler)).
		Func(func(ctx context.Context, key string) (reconciler.Result, error) {
			in.Reconcile(ctx, key)
			return reconciler.Result{}, nil
		})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	select {
	case <-running:
	case err := <-ended:
		cancel()
		if err == nil {
			err = errors.New("the controller ended at once")
		}
		return nil, err
	}
	return func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(stopWithin):
			return fmt.Errorf("the controller did not stop within %v", stopWithin)
		}
	}, nil
}
