package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// provision makes the stream and the durable, or checks them if they are there. A server that cannot be
// reached is waited for.
func (c *Consumer) provision(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.StartTimeout)
	defer cancel()
	return Retry(ctx, func(ctx context.Context) error {
		stream, err := provisionStream(ctx, c.js, c.wantedStream())
		if err != nil {
			return err
		}
		info := stream.CachedInfo()
		c.stream, c.streamCreated = info.Config.Name, info.Created
		return c.provisionDurable(ctx, stream)
	})
}

// Retry calls try until it succeeds, fails for a reason that time does not mend, or ctx ends. What time
// may mend is a server that cannot be reached or a cluster without a leader.
func Retry(ctx context.Context, try func(ctx context.Context) error) error {
	const once = 5 * time.Second
	wait := 20 * time.Millisecond
	for {
		tctx, cancel := context.WithTimeout(ctx, once)
		err := try(tctx)
		cancel()
		if err == nil || !Transient(err) {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w (waited for the server until %w)", err, context.Cause(ctx))
		}
		wait = min(2*wait, time.Second)
	}
}

// Transient reports whether err may go away by itself: a server that cannot be reached, a cluster without a
// leader.
func Transient(err error) bool {
	if errors.Is(err, nats.ErrPermissionViolation) {
		return false
	}
	for _, e := range []error{
		nats.ErrNoResponders, nats.ErrTimeout, nats.ErrDisconnected, nats.ErrConnectionReconnecting,
		nats.ErrReconnectBufExceeded, nats.ErrNoServers, context.DeadlineExceeded, nats.ErrStaleConnection,
		jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	for _, e := range []error{
		jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount,
		jetstream.ErrOverlappingFilterSubjects, jetstream.ErrDuplicateFilterSubjects, jetstream.ErrEmptyFilter,
	} {
		if errors.Is(err, e) {
			return false
		}
	}
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode == noReplicas {
		return false
	}
	return api.Code == 503 || api.Code == 500 || api.ErrorCode == noPeers
}

// noReplicas is the error that a server without a cluster keeps no replicas, of code 500.
const noReplicas jetstream.ErrorCode = 10074

// noPeers is the error "no suitable peers for placement", of code 400: fewer servers are up than the stream
// wants replicas, for the moment perhaps.
const noPeers jetstream.ErrorCode = 10005
