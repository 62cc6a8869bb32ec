package jsource_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
)

// Cases 5 and 6: the server is restarted twenty times while events are published. Every key whose event was confirmed
// is reconciled, without help.
func TestServerRestartedTwentyTimes(t *testing.T) {
	if testing.Short() {
		t.Skip("twenty restarts take their time")
	}
	t.Parallel()
	w := newUnwatched(t)
	conn := w.srv.Conn()
	m := w.join(through(conn), workers(4))
	pub := newPublisher(t, w.srv.Conn(), jsource.PublisherTimeout(natstest.Patience))
	var stored sync.Map
	var last atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	for p := range 2 {
		publishing.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("key%d-%d", p, i)
				// None waits for another: what a restart cuts off is tried again for a while.
				publishing.Go(func() {
					if _, err := jsource.PublishCreated(context.WithoutCancel(ctx), pub, widgets, key, widget{}); err != nil {
						t.Errorf("publishing %s: %v", key, err)
						return
					}
					stored.Store(key, true)
					last.Add(1)
				})
				select {
				case <-time.After(5 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	for range 20 {
		w.srv.Restart()
		n := last.Load()
		natstest.Until(t, "publishing goes on", natstest.Patience, func() bool { return last.Load() > n+2 })
		have := len(m.begun())
		natstest.Until(t, "reconciling goes on", natstest.Patience, func() bool { return len(m.begun()) > have })
	}
	stop()
	publishing.Wait()
	var keys []string
	stored.Range(func(key, _ any) bool { keys = append(keys, key.(string)); return true })
	m.waitDone(t, keys...)
	w.settled()
	natstest.Eventually(t, "healthy", natstest.Patience, m.source.Healthy)
}

// Case 2 with a stream in memory: the server's restart takes the stream along, with the durable and its position.
// Both are made again, and what is published from then on is reconciled, though it counts from 1 again.
// Seen in kyma-project/kyma#13609 and kyma-project/kyma#14371.
func TestStreamInMemoryIsGoneAfterARestart(t *testing.T) {
	t.Parallel()
	w := newUnwatched(t)
	m := w.join(withSource(func(s *widgetSource) {
		s.Stream(jetstream.StreamConfig{Name: widgetStream, Storage: jetstream.MemoryStorage})
	}))
	before := numbered("before", 5)
	w.publish(before...)
	m.waitDone(t, before...)
	w.settled()
	w.srv.Restart()
	natstest.Eventually(t, "the stream is made again", natstest.Patience, func() error {
		_, err := w.js.Consumer(t.Context(), widgetStream, widgetDurable)
		return err
	})
	after := numbered("after", 3)
	if seq := w.publish(after...)[0].Sequence; seq != 1 {
		t.Errorf("the first event has sequence %d", seq)
	}
	m.waitDone(t, after...)
	w.settled()
	m.expectOnce(t, append(before, after...)...)
}

// Case 16, the other half: after a purge with a message unsettled, what comes then is handed out again when nobody
// settles it. Seen in nats-io/nats-server#2392.
func TestHandedOutAgainAfterAPurge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.srv.Conn()
	a := w.join(through(conn), holding("purged", "later"), workers(2),
		withSource(func(s *widgetSource) { s.AckWait(short) }))
	w.publish("purged")
	a.waitBegun(t, "purged")
	if err := w.mustStream(widgetStream).Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.publish("later")
	a.waitBegun(t, "later")
	conn.Close() // as if it were killed
	b := w.join(withSource(func(s *widgetSource) { s.AckWait(short) }))
	b.waitDone(t, "later")
	w.settled()
	a.release("purged", "later")
}

// L3, case 27: one failing key leaves the good ones as fast as they are without it.
func TestFailingKeySlowsNobodyDown(t *testing.T) {
	t.Parallel()
	const rounds, each = 5, 20
	w := newUnwatched(t)
	var failing atomic.Bool
	m := w.join(workers(4), doing(func(_ context.Context, key string) (res reconciler.Result, err error) {
		if key == "bad" && failing.Load() {
			err = errTest
		}
		return res, err
	}))
	took := map[bool][]time.Duration{}
	for round := range rounds {
		for _, bad := range []bool{false, true} {
			failing.Store(bad)
			n := m.begun()["bad"]
			w.publish("bad", "bad", "bad", "bad", "bad")
			m.waitAttempts(t, "bad", n+1)
			for i := range each {
				key := fmt.Sprintf("good%d-%t-%d", round, bad, i)
				began := time.Now()
				w.publish(key)
				m.waitDone(t, key)
				took[bad] = append(took[bad], time.Since(began))
			}
			if !bad {
				continue
			}
			if h := m.source.Status(1).Holding; len(h) != 1 || h[0].Request != "bad" || h[0].LastErr == nil {
				t.Errorf("held by %+v", h)
			}
		}
		failing.Store(false)
		w.settled()
	}
	median := func(list []time.Duration) time.Duration {
		slices.Sort(list)
		return list[len(list)/2]
	}
	without, with := median(took[false]), median(took[true])
	t.Logf("median without a failing key %v, with one %v", without, with)
	if with > 3*without+time.Millisecond {
		t.Errorf("with a failing key the good ones take %v, without %v", with, without)
	}
}

// §8: a source that was stopped leaves no subscription on a connection that goes on.
func TestStoppedSourceLeavesNoSubscription(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.srv.Conn()
	if _, err := jsource.NewPublisher(conn); err != nil {
		t.Fatal(err)
	}
	w.join(through(conn)).stop() // the client listens for answers from its first request on
	first := w.join(through(conn))
	w.publish("a")
	first.waitDone(t, "a")
	first.stop()
	first.wait()
	had := conn.NumSubscriptions()
	if had > 1 {
		t.Errorf("%d subscriptions are left after a stop, the client needs 1", had)
	}
	for range 3 {
		m := w.join(through(conn), doing(unlessBad))
		w.publish("b", "bad")
		m.waitDone(t, "b")
		w.settled()
		if err := w.js.DeleteConsumer(t.Context(), widgetStream, widgetDurable); err != nil {
			t.Fatal(err)
		}
		w.publish("c")
		m.waitDone(t, "c")
		m.stop()
		m.wait()
	}
	if n := conn.NumSubscriptions(); n != had {
		t.Errorf("%d subscriptions, before %d", n, had)
	}
}
