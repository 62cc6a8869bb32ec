package consumer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// The stream is deleted and made again with ten held of the old one, and counts from 1 again: all that the
// new one stores is handed out, and nothing that is done to the old ones settles any of it.
func TestCase32_StreamMadeAnew(t *testing.T) {
	t.Parallel()
	for name, room := range map[string]int{"with a pull under way": 100, "without one": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := r.replica(hurry, most(room))
			r.publish(1, 10)
			old := p.got(10)
			r.deleteStream()
			old[0].Ack()
			r.makeStream()
			old[1].Ack()
			r.publish(101, 110)
			old[2].Term()
			old[3].GiveBack(0)
			p.wasRecovered(1)
			for _, m := range old[4:7] {
				m.Ack()
			}
			all := p.got(20)
			for _, m := range old {
				m.Ack()
				m.GiveBack(0)
			}
			p.beats(20)
			r.ackPending(10) // not one of the new ones is settled
			for i, m := range all[10:] {
				if number(m) != 101+i {
					t.Errorf("handed out %q, want %d", m.Data(), 101+i)
				}
				m.Ack()
			}
			p.ended(consumer.Acked, all[10:]...)
			r.settled()
			p.ended(consumer.Forgotten, old[4:]...)
			for _, m := range old[:3] {
				if ends := p.endings(m); len(ends) != 1 || ends[0] != consumer.Forgotten {
					t.Errorf("message %d of the old stream ended with %v", m.Sequence(), ends)
				}
			}
			if got := len(p.sequences()); got != 20 {
				t.Errorf("%d handed out, want 20", got)
			}
			p.healthy()
		})
	}
}

// The same while the client is disconnected, and another replica has made the durable again and works on
// the new ones: what this one settles late hits none of them.
func TestCase32_StreamMadeAnewWhileDisconnected(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.replica(hurry)
	r.publish(1, 10)
	old := p.got(10)
	end := p.outage()
	old[0].Ack()
	p.unhealthy()
	old[1].Ack()
	r.deleteStream()
	r.makeStream()
	r.publish(101, 110)
	other := r.replica(hurry)
	fresh := other.got(10)
	end()
	p.wasRecovered(1)
	for _, m := range old {
		m.Ack()
		m.GiveBack(0)
	}
	p.ended(consumer.Forgotten, old...)
	p.healthy()
	other.beats(20)
	r.ackPending(10)
	for _, m := range fresh {
		if m.Deliveries() != 1 {
			t.Errorf("message %d was handed out %d times", m.Sequence(), m.Deliveries())
		}
		m.Ack()
	}
	other.ended(consumer.Acked, fresh...)
	r.settled()
	if n := p.wire.Count(natstest.Ack) + p.wire.Count(natstest.Nak); n != 0 {
		t.Errorf("%d acks and naks of the old stream were sent: %v", n, p.wire.All())
	}
	if got := p.sequences(); len(got) != 10 {
		t.Errorf("handed out %v, want the old ones alone", got)
	}
}

// A doubt that is raised while the durable is being looked up is not laid to rest by what that look-up finds,
// which may be older: here the durable that was deleted meanwhile, with its stream.
func TestCase32_DoubtDuringALookUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.replica(holds(1))
	r.publish(1, 1)
	m := p.got(1)[0]
	seen := r.srv.Conn()
	lookUps, err := seen.SubscribeSync(fmt.Sprintf("$JS.API.CONSUMER.INFO.%s.%s", stream, durable))
	r.check("subscribe", err)
	r.check("flush", seen.FlushTimeout(natstest.Patience))
	p.proxy.Stall(natstest.ServerToClient)
	consumer.Doubt(p.c)
	_, err = lookUps.NextMsg(natstest.Patience)
	r.check("look-up", err)
	r.info() // so the one before is answered, and the answer held back
	r.deleteStream()
	r.makeStream()
	r.publish(101, 101)
	other := r.replica()
	fresh := other.got(1)[0]
	m.Ack()
	consumer.Doubt(p.c)
	p.proxy.Resume(natstest.ServerToClient)
	p.ended(consumer.Forgotten, m)
	p.only(1, natstest.Ack, 0, 0)
	r.ackPending(1)
	fresh.Ack()
	r.settled()
}

// Nobody makes the stream again: the consumer does, as at the start.
func TestL4_StreamDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.replica(hurry, ack, with(func(cfg *consumer.Config) {
		cfg.Stream = jetstream.StreamConfig{Name: stream, Subjects: []string{subject}, MaxAge: time.Hour}
	}))
	r.publish(1, 3)
	p.got(3)
	r.settled()
	r.deleteStream()
	p.wasRecovered(1)
	p.healthy()
	r.publish(101, 103)
	p.got(6)
	r.settled()
	if got := p.sequences(); !slices.Equal(got, []uint64{1, 2, 3, 1, 2, 3}) {
		t.Errorf("handed out %v, want 1 2 3 of each stream", got)
	}
	s, err := r.js.Stream(r.ctx(), stream)
	r.check("stream", err)
	if age := s.CachedInfo().Config.MaxAge; age != time.Hour {
		t.Errorf("it was made with a MaxAge of %v", age)
	}
}

// A stream that somebody else had made is not replaced by one of ours: that would be in the way when it comes
// back.
func TestL4_StreamOfSomebodyElseDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.replica(hurry, ack)
	r.publish(1, 3)
	p.got(3)
	r.settled()
	r.deleteStream()
	natstest.Until(t, "it is named", natstest.Patience, func() bool {
		return len(p.log.containing("ERROR", `stream "ORDERS" is gone`, "create it")) == 1
	})
	p.unhealthy()
	if _, err := r.js.StreamNameBySubject(r.ctx(), "orders.created"); err == nil {
		t.Error("a stream was made")
	}
	r.makeStream()
	r.publish(101, 103)
	p.got(6)
	r.settled()
	p.healthy()
	if n := len(p.log.containing("ERROR")); n != 2 { // the durable is gone; so is the stream
		t.Errorf("logged %v", p.log.containing("ERROR"))
	}
}

// The stream is made again, by somebody, such that messages can vanish: not used, and named.
func TestL4_StreamMadeAnewUnsuitable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.replica(hurry, ack)
	r.publish(1, 1)
	p.got(1)
	r.settled()
	end := p.outage()
	p.unhealthy()
	r.deleteStream()
	_, err := r.js.CreateStream(r.ctx(), jetstream.StreamConfig{
		Name: stream, Subjects: []string{subject}, Retention: jetstream.WorkQueuePolicy,
	})
	r.check("create stream", err)
	end()
	natstest.Until(t, "it is named", natstest.Patience, func() bool {
		return len(p.log.containing("ERROR", "retention")) == 1
	})
	names(t, p.unhealthy(), "retention", "WorkQueue")
	r.deleteStream()
	r.makeStream()
	r.publish(101, 101)
	p.got(2)
	r.settled()
	p.healthy()
}

// A message of another incarnation arrives before anything else has told of it: neither is trusted, and both
// come again if they are there.
func TestCase32_Clash(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(hurry, wait(300*time.Millisecond))
	p.publish(1, 3)
	ms := p.got(3)
	ms[0].Ack()
	p.ended(consumer.Acked, ms[0])
	stored := ms[1].Stored().Add(time.Hour).UnixNano()
	consumer.Deliver(p.c, fmt.Sprintf("$JS.ACK.%s.%s.1.2.2.%d.0", stream, durable, stored), "other")
	p.ended(consumer.Forgotten, ms[1], ms[2])
	if ms[1].Ack() {
		t.Error("a forgotten message was acked")
	}
	for _, m := range p.got(5)[3:] {
		if seq := m.Sequence(); number(m) != int(seq) {
			t.Errorf("handed out %q as %d", m.Data(), seq)
		}
		m.Ack()
	}
	p.settled()
	p.healthy()
}
