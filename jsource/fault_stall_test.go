package jsource_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
)

// stallAckWait is short, since these tests wait until it has passed.
const stallAckWait = 500 * time.Millisecond

// sampled makes the durable beforehand, such that the server tells of each message's first effective verdict.
func (w *world) sampled() *natstest.Advisories {
	w.tb.Helper()
	w.publish("first") // which makes the stream
	_, err := w.js.CreateConsumer(context.Background(), widgetStream, jetstream.ConsumerConfig{
		Durable: widgetDurable, AckPolicy: jetstream.AckExplicitPolicy, SampleFrequency: "100%",
		FilterSubjects: []string{"shop.widgets.created", "shop.widgets.deleted", "shop.widgets.updated"},
	})
	if err != nil {
		w.tb.Fatal(err)
	}
	return natstest.WatchAdvisories(w.tb, w.srv.Conn(), widgetStream, widgetDurable)
}

// Case 10 with two replicas: what one sends does not arrive for longer than AckWait, so its messages are
// handed to the other while they are in reconcile. The work may be done twice; each message is settled once,
// the first replica gives back nothing that may be the other's by now, and nothing is lost.
func TestStallUnderTwoReplicas(t *testing.T) {
	w := newWorld(t)
	advisories := w.sampled()
	proxy := natstest.NewProxy(t, w.srv.Addr())
	short := withSource(func(s *widgetSource) { s.AckWait(stallAckWait) })
	keys := numbered("key", 5)
	a := w.join(through(natstest.Connect(t, proxy.URL())), short, workers(2), holding(keys...))
	a.waitDone(t, "first")
	w.settled()
	seqs := w.publish(keys...)
	waitHeld(t, a.source, 5)
	b := w.join(short)

	a.waitBegun(t, keys[:2]...)
	proxy.Stall(natstest.ClientToServer)
	b.waitDone(t, keys...)
	a.release(keys[0])
	a.waitBegun(t, keys[2]) // the first is acked, and that has not arrived
	a.stop()                // the last two would be given back, if they were not the other's by now
	proxy.Resume(natstest.ClientToServer)
	a.release(keys[1:]...)
	a.wait()
	w.settled()

	natstest.Eventually(t, "a sample of each ack", natstest.Patience, func() error {
		have := map[string]int{}
		for _, adv := range advisories.All() {
			if adv.Kind == natstest.AckSample && adv.StreamSeq >= seqs[0].Sequence {
				have[keys[adv.StreamSeq-seqs[0].Sequence]]++
			}
		}
		for key, n := range have {
			if n != 1 {
				t.Errorf("%s was settled %d times", key, n)
			}
		}
		return missing(have, keys)
	})
	w.witness.Sync(t)
	if n := w.witness.Count(natstest.Nak); n != 0 {
		t.Errorf("%d naks of what may be another replica's work", n)
	}
	b.expectOnce(t, keys...)
}

// Case 10 with one replica: the copies come to itself while it reconciles their messages. They are absorbed:
// each message is reconciled once and acked once, on the reply of its newest copy.
func TestStallUnderOneReplica(t *testing.T) {
	w := newWorld(t)
	proxy := natstest.NewProxy(t, w.srv.Addr())
	keys := numbered("key", 5)
	a := w.join(through(natstest.Connect(t, proxy.URL())), withSource(func(s *widgetSource) { s.AckWait(stallAckWait) }),
		workers(5), holding(keys...))
	receipts := w.publish(keys...)
	a.waitBegun(t, keys...)

	proxy.Stall(natstest.ClientToServer)
	natstest.Until(t, "copies of all have arrived", natstest.Patience, func() bool {
		return a.source.Status(0).Counts.Absorbed >= 5
	})
	proxy.Resume(natstest.ClientToServer)
	a.release(keys...)
	w.settled()
	a.expectOnce(t, keys...)
	w.witness.Sync(t)
	for _, r := range receipts {
		for _, s := range w.witness.Verdicts(r.Sequence) {
			if s.Kind != natstest.Ack || s.Deliveries < 2 {
				t.Errorf("%v: not the ack of a copy", s)
			}
		}
	}
}
