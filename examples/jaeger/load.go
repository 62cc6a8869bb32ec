package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"

	"github.com/levelstream/jsource/jsource"
)

// publisherService is the service that the publisher's spans belong to.
const publisherService = "api-server"

// load publishes PromotionRequests.
type load struct {
	pub       *jsource.Publisher
	published atomic.Int64
}

func newLoad(conn *natsgo.Conn) (*load, error) {
	pub, err := jsource.NewPublisher(conn)
	return &load{pub: pub}, err
}

// stage is the Stage of the PromotionRequest of that number: half of them are the hot one's.
func stage(number, rate int) string {
	switch second := number % rate; {
	case number == rate:
		return missingStage // once
	case second == 0:
		return slowStage // every second
	case second == rate/2:
		return failingStage
	case number%2 == 1:
		return hotStage
	default:
		return "fleet/stage-" + strconv.Itoa(number%50)
	}
}

// run publishes total PromotionRequests, rate of them a second, and returns when the stream has stored each.
func (l *load) run(ctx context.Context, total, rate int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	var publishing sync.WaitGroup
	defer publishing.Wait()
	room := make(chan struct{}, 32) // so many at once
	for number := 1; number <= total; number++ {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		room <- struct{}{}
		publishing.Go(func() {
			defer func() { <-room }()
			if err := l.publish(ctx, number, promotionRequest{Stage: stage(number, rate), Phase: "Pending"}); err != nil {
				cancel(err)
			}
		})
	}
	publishing.Wait()
	return context.Cause(ctx)
}

// publish is one request of a user of the API server: its span is the publisher's own.
func (l *load) publish(ctx context.Context, number int, r promotionRequest) error {
	ctx, span := otel.Tracer("fleet").Start(ctx, "POST /promotionrequests")
	defer span.End()
	_, err := jsource.PublishCreated(ctx, l.pub, promotionRequests, number, r, jsource.MsgID("promotion-"+strconv.Itoa(number)))
	if err != nil {
		return fmt.Errorf("publishing PromotionRequest %d: %w", number, err)
	}
	l.published.Add(1)
	return nil
}
