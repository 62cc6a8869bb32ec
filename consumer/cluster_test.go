package consumer_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// On three servers, the one that leads the stream and the durable is killed with messages held, half of
// them decided: all are settled once there are leaders again, each with one kind of verdict.
func TestL4_LeaderKilledWithMessagesHeld(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("an election takes seconds")
	}
	cluster := natstest.StartCluster(t, 3)
	r := &rig{t: t, srv: cluster.Servers()[0], js: cluster.JetStream()}
	_, err := r.js.CreateStream(r.ctx(), jetstream.StreamConfig{
		Name: stream, Subjects: []string{subject}, Replicas: 3,
	})
	r.check("create stream", err)
	cluster.WaitCurrent()
	witness := make([]*natstest.Proxy, 0, 3)
	urls := ""
	for _, srv := range cluster.Servers() {
		proxy := natstest.NewProxy(t, srv.Addr())
		witness = append(witness, proxy)
		urls += "," + proxy.URL()
	}
	wire := natstest.WatchThrough(stream, durable, witness...)
	js, err := jetstream.New(natstest.Connect(t, urls[1:]))
	r.check("jetstream", err)
	d, log := new(desk), new(journal)
	c, err := consumer.Open(r.ctx(), js, consumer.Config{
		Subjects: []string{subject}, Durable: durable, AckWait: 15 * time.Second,
		Logger: slog.New(log),
	})
	r.check("open", err)
	r.check("start", c.Start(d))
	p := &replica{rig: r, desk: d, c: c, wire: wire, log: log}

	const n = 20
	p.publish(1, n)
	ms := p.got(n)
	leader := cluster.ConsumerLeader(stream, durable)
	for _, m := range ms[:n/4] {
		m.Ack()
	}
	leader.Stop()
	for _, m := range ms[n/4 : n/2] {
		m.Ack()
	}
	cluster.ConsumerLeader(stream, durable)
	consumer.AckTogether(c, ms[n/2:]...)
	p.ended(consumer.Acked, ms...)
	r.settled()
	p.publish(n+1, n+5)
	for _, m := range p.got(n + 5)[n:] {
		m.Ack()
	}
	r.settled()
	for seq := range uint64(n + 5) {
		p.only(seq+1, natstest.Ack, 1, 100)
	}
	// With another leader the first of several acks may get lost and the last be answered: each asks for its own.
	for _, s := range wire.All() {
		if s.Verdict() && s.Reply == "" {
			t.Errorf("%s asks for no confirmation", s)
		}
	}
	p.healthy()
	r.check("close", c.Close(r.ctx()))
}
