package jsource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// unreachable is how long a JetStream that nobody answers for is looked for, when the server that the
	// client is connected to says that it has none itself.
	unreachable = 2 * time.Second
	reachPoll   = 100 * time.Millisecond
)

// reach returns an error soon when there is no JetStream to wait for: the connected server has none and no
// other answers in its place.
func reach(ctx context.Context, js jetstream.JetStream) error {
	for began := time.Now(); ; {
		conn := js.Conn()
		if has, _ := conn.ConnectedServerJetStream(); has || !conn.IsConnected() {
			return nil // whatever is wrong otherwise shows in what is asked for
		}
		tctx, cancel := context.WithTimeout(ctx, unreachable)
		_, err := js.AccountInfo(tctx)
		cancel()
		if !errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
			return nil
		}
		if time.Since(began) > unreachable {
			return fmt.Errorf("there is no JetStream: server %s has none, and no other answers for it; enable it in the "+
				"server's configuration, or connect to another: %w", conn.ConnectedUrlRedacted(), err)
		}
		timer := time.NewTimer(reachPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w (waited until %w)", err, context.Cause(ctx))
		}
	}
}
