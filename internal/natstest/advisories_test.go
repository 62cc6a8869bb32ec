package natstest_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
)

func TestAdvisoriesAndAckSamples(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream()
	provision(t, js, 1)
	seen := natstest.WatchAdvisories(t, srv.Conn(), "ORDERS", "fragile")
	c, err := js.CreateConsumer(deadline(t), "ORDERS", jetstream.ConsumerConfig{
		Durable: "fragile", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 50 * time.Millisecond,
		MaxDeliver: 2, SampleFrequency: "100%",
	})
	check(t, "create consumer", err)
	publish(t, js, "orders.created")
	check(t, "nak 1", next(t, c).Nak())
	check(t, "ack 1", next(t, c).DoubleAck(deadline(t)))
	publish(t, js, "orders.created")
	check(t, "term 2", next(t, c).TermWithReason("hopeless"))
	publish(t, js, "orders.created")
	next(t, c)
	next(t, c) // the last there is: it expires
	// The server notices only when it looks for something to hand out.
	asking, err := c.Messages(jetstream.PullMaxMessages(1))
	check(t, "pull", err)
	defer asking.Stop()
	go asking.Next()

	want := map[natstest.AdvisoryKind]natstest.Advisory{
		"CREATED":              {},
		natstest.MsgNaked:      {StreamSeq: 1, ConsumerSeq: 1, Deliveries: 1},
		natstest.AckSample:     {StreamSeq: 1, ConsumerSeq: 2, Deliveries: 2},
		natstest.MsgTerminated: {StreamSeq: 2, ConsumerSeq: 3, Deliveries: 1, Reason: "hopeless"},
		natstest.MaxDeliveries: {StreamSeq: 3, Deliveries: 2},
	}
	seen.WaitFor(t, "one of each kind", func(all []natstest.Advisory) bool { return len(all) >= len(want) })
	for _, got := range seen.All() {
		w, expected := want[got.Kind]
		if !expected || seen.Count(got.Kind) != 1 {
			t.Errorf("%d times %s", seen.Count(got.Kind), got)
			continue
		}
		if got.Kind == natstest.AckSample && got.Delay <= 0 {
			t.Errorf("sample without a delay: %s", got)
		}
		w.Kind, w.Stream, w.Durable, w.At, w.Delay = got.Kind, "ORDERS", "fragile", got.At, got.Delay
		if got != w {
			t.Errorf("saw %+v, want %+v", got, w)
		}
	}
}
