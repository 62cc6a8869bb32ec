package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/bench"
)

// raw is the loop of the nats.go documentation: Consume, decode, work, Ack.
func raw() bench.Contender {
	return bench.Contender{
		Name:    "raw",
		Promise: "handed out again; one at a time, no retries, an ack may get lost",
		Start: func(ctx context.Context, in *bench.Intake) (func() error, error) {
			return consume(ctx, in, func(m jetstream.Msg) {
				var e bench.Event
				if json.Unmarshal(m.Data(), &e) != nil || e.New == nil {
					_ = m.Term()
					return
				}
				in.ReconcileEvent(ctx, &e)
				_ = m.Ack()
			})
		},
	}
}

// rawUndecoded does not look at the events: faster than the server and the client a consumer cannot be.
func rawUndecoded() bench.Contender {
	return bench.Contender{
		Name:    "raw-undecoded",
		Promise: "handed out again; it does not know what it has got",
		Start: func(ctx context.Context, in *bench.Intake) (func() error, error) {
			return consume(ctx, in, func(m jetstream.Msg) {
				meta, err := m.Metadata()
				if err != nil {
					_ = m.Term()
					return
				}
				in.ReconcileSequence(ctx, meta.Sequence.Stream)
				_ = m.Ack()
			})
		},
	}
}

// rawConfirmed waits until the server has confirmed each ack.
func rawConfirmed() bench.Contender {
	return bench.Contender{
		Name:    "raw-doubleack",
		Promise: "handed out again; one at a time, no retries, acks confirmed",
		Start: func(ctx context.Context, in *bench.Intake) (func() error, error) {
			return consume(ctx, in, func(m jetstream.Msg) {
				var e bench.Event
				if json.Unmarshal(m.Data(), &e) != nil || e.New == nil {
					_ = m.Term()
					return
				}
				in.ReconcileEvent(ctx, &e)
				_ = m.DoubleAck(ctx) // unconfirmed: it is handed out again
			})
		},
	}
}

// rawEarly acks when it has received a message, and lets workers have it then: what is often done to work
// on several at once.
func rawEarly() bench.Contender {
	return bench.Contender{
		Name:    "raw-earlyack",
		Unsafe:  true,
		Promise: "lost: acked before its reconcile",
		Start: func(ctx context.Context, in *bench.Intake) (func() error, error) {
			events := make(chan bench.Event, 100)
			for range in.Workers {
				go func() {
					for e := range events {
						in.ReconcileEvent(ctx, &e)
					}
				}()
			}
			stop, err := consume(ctx, in, func(m jetstream.Msg) {
				var e bench.Event
				if json.Unmarshal(m.Data(), &e) == nil && e.New != nil {
					events <- e
				}
				_ = m.Ack()
			})
			return func() error {
				err := stop()
				close(events)
				return err
			}, err
		},
	}
}

// consume makes a durable and has each of its messages handled.
func consume(ctx context.Context, in *bench.Intake, handle func(jetstream.Msg)) (func() error, error) {
	js, err := jetstream.New(in.Conn)
	if err != nil {
		return nil, err
	}
	durable, err := js.CreateOrUpdateConsumer(ctx, in.Stream.Name, jetstream.ConsumerConfig{
		Durable: in.Durable, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: in.MaxAckPending, AckWait: in.AckWait,
	})
	if err != nil {
		return nil, fmt.Errorf("making durable %q: %w", in.Durable, err)
	}
	consuming, err := durable.Consume(handle)
	if err != nil {
		return nil, fmt.Errorf("consuming durable %q: %w", in.Durable, err)
	}
	return func() error {
		consuming.Stop()
		<-consuming.Closed()
		return nil
	}, nil
}
