package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/internal/bench"
)

// waterMill is Watermill's JetStream subscriber, the one it recommends for production, with as many
// subscriptions as there are workers. It waits for the answer to each ack (its default), and then handles the next.
func waterMill() bench.Contender {
	return bench.Contender{
		Name:    "watermill",
		Promise: "handed out again; one at a time for each worker, acks confirmed",
		Start: func(ctx context.Context, in *bench.Intake) (func() error, error) {
			options := []nats.SubOpt{nats.DeliverAll(), nats.AckExplicit(), nats.BindStream(in.Stream.Name)}
			if in.MaxAckPending > 0 {
				options = append(options, nats.MaxAckPending(in.MaxAckPending))
			}
			sub, err := wmnats.NewSubscriberWithNatsConn(in.Conn, wmnats.SubscriberSubscriptionConfig{
				QueueGroupPrefix: in.Durable,
				SubscribersCount: in.Workers,
				AckWaitTimeout:   in.AckWait,
				Unmarshaler:      &wmnats.NATSMarshaler{},
				JetStream:        wmnats.JetStreamConfig{DurablePrefix: in.Durable, SubscribeOptions: options},
			}, watermill.NopLogger{})
			if err != nil {
				return nil, fmt.Errorf("making Watermill's subscriber: %w", err)
			}
			messages, err := sub.Subscribe(ctx, in.Topic.Subject())
			if err != nil {
				return nil, fmt.Errorf("subscribing with Watermill: %w", err)
			}
			for range in.Workers {
				go func() {
					for m := range messages {
						var e bench.Event
						if json.Unmarshal(m.Payload, &e) == nil && e.New != nil {
							in.ReconcileEvent(ctx, &e)
						}
						m.Ack()
					}
				}()
			}
			return sub.Close, nil
		},
	}
}
