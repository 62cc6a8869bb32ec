//go:build unix

package chaos

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/history"
)

// heal ends every fault, and the load.
func (w *world) heal() {
	w.steps = nil
	for kind := range weathers {
		w.rages[kind] = 0
		w.table.store(int(kind), 0)
	}
	for _, r := range w.all {
		r.wire.setRefuse(false)
		r.wire.resume(up)
		r.wire.resume(down)
		r.wire.setLag(0)
		r.goOn()
	}
	if w.server != nil {
		w.server.start()
	}
	if w.cluster != nil {
		for i, s := range w.cluster.Servers() {
			w.cluster.Heal(i)
			if !s.Running() {
				s.Relaunch()
			}
		}
		w.waitHealthy()
	}
	w.start(0)
	w.start(1)
	w.load.halt()
}

// waitHealthy waits until every server of the cluster says that it is healthy. One that never is, is the
// server's own trouble: the others are a majority.
func (w *world) waitHealthy() {
	const patience = 15 * time.Second
	began := time.Now()
	for {
		sick := ""
		for _, s := range w.cluster.Servers() {
			if h := s.Server().Healthz(&server.HealthzOptions{}); h.StatusCode != http.StatusOK {
				sick += fmt.Sprintf(" %s: %s %s", s.Name(), h.Status, h.Error)
			}
		}
		switch {
		case sick == "":
			return
		case time.Since(began) > patience:
			w.note(false, "after %v not every server is healthy:%s", patience, sick)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// settle waits until nothing is pending and nothing unacknowledged, and returns what the server says then.
func (w *world) settle(ctx context.Context) history.Final {
	began := time.Now()
	final := history.Final{TimedOut: true}
	said := time.Now()
	quiet := 0
	for time.Since(began) < w.cfg.Patience && ctx.Err() == nil {
		w.notice()
		info, err := w.consumerInfo()
		switch {
		case err != nil:
			quiet = 0
		case info.NumPending == 0 && info.NumAckPending == 0:
			quiet++
		default:
			quiet = 0
		}
		if err == nil {
			final.NumPending, final.NumAckPending = info.NumPending, info.NumAckPending
		}
		if quiet == 3 {
			final.TimedOut = false
			break
		}
		if time.Since(said) > progressEvery {
			said = time.Now()
			state := fmt.Sprint(err)
			if err == nil {
				state = fmt.Sprintf("%d pending, %d unacknowledged, %d redelivered", info.NumPending, info.NumAckPending, info.NumRedelivered)
			}
			w.printf("healed, waiting until nothing is pending: %s", state)
		}
		time.Sleep(100 * time.Millisecond)
	}
	final.Waited = time.Since(began)
	return final
}

func (w *world) consumerInfo() (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := w.js.Consumer(ctx, streamName, durableName)
	if err != nil {
		return nil, err
	}
	return c.CachedInfo(), nil
}

// dismiss asks every replica to stop and waits until they have.
func (w *world) dismiss() {
	for _, r := range w.all {
		if !r.gone() {
			r.terminate()
		}
	}
	deadline := time.After(2 * tooLong)
	for _, r := range w.all {
		select {
		case <-r.done:
		case <-deadline:
			w.note(true, "replica %s has not stopped:\n%s", r.name, r.log)
			r.kill()
		}
	}
	w.notice()
}

// inspect reads what is in the stream at the end.
func (w *world) inspect(final *history.Final) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stream, err := w.js.Stream(ctx, streamName)
	if err != nil {
		return fmt.Errorf("looking the stream up: %w", err)
	}
	info := stream.CachedInfo()
	final.Created = info.Created.UnixNano()
	if info.State.Msgs == 0 {
		return nil
	}
	c, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return fmt.Errorf("reading the stream: %w", err)
	}
	messages, err := c.Messages()
	if err != nil {
		return fmt.Errorf("reading the stream: %w", err)
	}
	defer messages.Stop()
	for range info.State.Msgs {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("reading message %d of %d of the stream: %w", len(final.Stored)+1, info.State.Msgs, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		final.Stored = append(final.Stored, history.Stored{
			Message: history.ID{Seq: meta.Sequence.Stream, Stored: meta.Timestamp.UnixNano()}, Call: callOf(m.Subject(), m.Headers(), m.Data()),
		})
	}
	// Whatever became pending while the replicas stopped would show here.
	if c, err := w.consumerInfo(); err == nil && !final.TimedOut {
		final.NumPending, final.NumAckPending = c.NumPending, c.NumAckPending
	}
	return nil
}
