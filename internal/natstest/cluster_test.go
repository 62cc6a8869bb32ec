package natstest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
)

// publishSoon publishes as soon as the cluster takes it: elections answer with errors, or not at all.
func publishSoon(t *testing.T, js jetstream.JetStream, subject string) {
	t.Helper()
	natstest.Eventually(t, "the stream takes a message", natstest.Patience, func() error {
		_, err := js.Publish(short(t), subject, nil)
		return err
	})
}

// ackNext acknowledges the next message and checks which it is.
func ackNext(t *testing.T, js jetstream.JetStream, want uint64) {
	t.Helper()
	var c jetstream.Consumer
	natstest.Eventually(t, "the consumer answers", natstest.Patience, func() (err error) {
		c, err = js.Consumer(short(t), "ORDERS", "worker")
		return err
	})
	var msg jetstream.Msg
	natstest.Eventually(t, "a message", natstest.Patience, func() (err error) {
		msg, err = c.Next(jetstream.FetchMaxWait(2 * time.Second))
		return err
	})
	meta, err := msg.Metadata()
	check(t, "metadata", err)
	if meta.Sequence.Stream != want {
		t.Fatalf("message %d, want %d", meta.Sequence.Stream, want)
	}
	check(t, "ack", msg.DoubleAck(deadline(t)))
}

func TestClusterIsReadyWhenItIsStarted(t *testing.T) {
	began := time.Now()
	c := natstest.StartCluster(t, 3)
	t.Logf("3 servers started in %v", time.Since(began))
	js := c.JetStream()
	provision(t, js, 3) // at once, no retries
	for _, s := range c.Servers() {
		if !s.Server().JetStreamIsClustered() || !s.Server().JetStreamIsCurrent() {
			t.Errorf("%s is not a current member", s.Name())
		}
	}
	if c.MetaLeader() == nil || c.StreamLeader("ORDERS") == nil || c.ConsumerLeader("ORDERS", "worker") == nil {
		t.Error("no leader")
	}
	if c.Follower("ORDERS") == c.StreamLeader("ORDERS") {
		t.Error("the leader follows itself")
	}
	witness := c.Watch("ORDERS", "worker")
	// From each server, to see that interest has spread.
	for i, s := range c.Servers() {
		publish(t, js, "orders.created")
		ackNext(t, s.JetStream(), uint64(i+1))
	}
	witness.WaitFor(t, "an ack from each server", func(s []natstest.Settlement) bool { return len(s) == 3 })
}

func TestStreamSurvivesItsLeader(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	js := c.JetStream()
	provision(t, js, 3)
	publish(t, js, "orders.created")
	publish(t, js, "orders.created")
	ackNext(t, js, 1)

	old := c.StreamLeader("ORDERS")
	old.Stop()
	if c.StreamLeader("ORDERS") == old {
		t.Fatal("a stopped server leads")
	}
	publishSoon(t, js, "orders.updated")
	ackNext(t, js, 2)

	old.Restart()
	c.WaitCurrent()
	ackNext(t, old.JetStream(), 3)
	natstest.WaitSettled(t, js, "ORDERS", "worker")
}

func TestStepDownMovesLeadershipAndCutsNoConnection(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	js := c.JetStream()
	provision(t, js, 3)
	stream, consumer := c.StreamLeader("ORDERS"), c.ConsumerLeader("ORDERS", "worker")
	if c.StepDownStream("ORDERS") == stream || c.StepDownConsumer("ORDERS", "worker") == consumer {
		t.Error("leadership did not move")
	}
	if n := js.Conn().Stats().Reconnects; n != 0 {
		t.Errorf("%d reconnects", n)
	}
	publishSoon(t, js, "orders.created")
	ackNext(t, js, 1)
}

func TestPartitionHoldsBothDirections(t *testing.T) {
	c := natstest.StartCluster(t, 3)
	cut, other := c.Servers()[1].Conn(), c.Servers()[2].Conn()
	atCut, err := cut.SubscribeSync("to.cut")
	check(t, "subscribe", err)
	atOther, err := other.SubscribeSync("to.other")
	check(t, "subscribe", err)
	ways := []struct {
		from    *nats.Conn
		to      *nats.Subscription
		subject string
	}{{other, atCut, "to.cut"}, {cut, atOther, "to.other"}}
	for _, way := range ways {
		natstest.Eventually(t, "interest has spread", natstest.Patience, func() error {
			check(t, "publish", way.from.Publish(way.subject, []byte("before")))
			_, err := way.to.NextMsg(aMoment)
			return err
		})
	}
	c.Partition(1)
	for _, way := range ways {
		check(t, "publish", way.from.Publish(way.subject, []byte("held")))
		for {
			msg, err := way.to.NextMsg(aMoment)
			if errors.Is(err, nats.ErrTimeout) {
				break
			}
			check(t, "receive", err)
			if string(msg.Data) != "before" {
				t.Fatalf("%q passed the partition", msg.Data)
			}
		}
	}
	c.Heal(1)
	for _, way := range ways {
		if msg, err := way.to.NextMsg(natstest.Patience); err != nil || string(msg.Data) != "held" {
			t.Errorf("after Heal: %v, %v, want what was held", msg, err)
		}
	}
}

func TestPartitionedLeaderIsReplacedAndCatchesUp(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for an election by timeout")
	}
	c := natstest.StartCluster(t, 3)
	provision(t, c.JetStream(), 3)
	old := c.StreamLeader("ORDERS")
	c.Partition(c.Index(old))
	successor := c.StreamLeader("ORDERS")
	if successor == old {
		t.Fatal("the partitioned server is taken for the leader")
	}
	// The partitioned one cannot store anything: nobody acknowledges it.
	if ack, err := old.JetStream().Publish(short(t), "orders.created", nil); err == nil {
		t.Fatalf("the minority stored message %d", ack.Sequence)
	}
	publishSoon(t, successor.JetStream(), "orders.created")

	c.Heal(c.Index(old))
	c.WaitCurrent()
	natstest.Until(t, "the old leader follows", natstest.Patience, func() bool {
		return !old.Server().JetStreamIsStreamLeader("$G", "ORDERS")
	})
	ackNext(t, old.JetStream(), 1)
}

func TestWholeClusterRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for an election by timeout")
	}
	c := natstest.StartCluster(t, 3)
	js := c.JetStream()
	provision(t, js, 3)
	publish(t, js, "orders.created")
	for _, s := range c.Servers() {
		s.Stop()
	}
	for _, s := range c.Servers() {
		s.Restart()
	}
	c.WaitCurrent()
	ackNext(t, js, 1)
}
