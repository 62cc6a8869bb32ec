package consumer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// copies waits until the message was handed out n times.
func copies(t *testing.T, m *consumer.Message, n uint64) {
	t.Helper()
	natstest.Until(t, fmt.Sprintf("copy %d", n), natstest.Patience, func() bool { return m.Deliveries() >= n })
}

// Copies of a message that is held are not handed out, and the verdict is given to the newest.
func TestS4_CopyOfAHeldMessageIsAbsorbed(t *testing.T) {
	t.Parallel()
	heartbeats := mute{prefix: "+WPI"}
	heartbeats.on.Store(true)
	p := newRig(t).replica(hurry, wait(100*time.Millisecond), heartbeats.option())
	p.publish(1, 1)
	m := p.got(1)[0]
	copies(t, m, 3)
	heartbeats.on.Store(false)
	p.beats(3) // so no further copy is on its way
	if got := p.wire.Of(1)[len(p.wire.Of(1))-1].Deliveries; got != m.Deliveries() {
		t.Errorf("heartbeats are for copy %d, want the newest, %d", got, m.Deliveries())
	}
	m.Ack()
	p.ended(consumer.Acked, m)
	p.settled()
	p.only(1, natstest.Ack, 1, 1)
	if got := p.wire.Verdicts(1)[0].Deliveries; got != m.Deliveries() {
		t.Errorf("copy %d was acked, want the newest, %d", got, m.Deliveries())
	}
	if got := p.sequences(); len(got) != 1 {
		t.Errorf("handed out %v, want 1 once", got)
	}
}

// The network holds heartbeats back for longer than AckWait: the copy is absorbed, and there is one
// settlement.
func TestCase10_CopyWhileTheFirstIsInWork(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(wait(300 * time.Millisecond))
	p.publish(1, 1)
	m := p.got(1)[0]
	p.beats(1)
	p.proxy.Stall(natstest.ClientToServer)
	copies(t, m, 2)
	p.proxy.Resume(natstest.ClientToServer)
	m.Ack()
	p.ended(consumer.Acked, m)
	p.settled()
	p.only(1, natstest.Ack, 1, 1)
	if got := p.sequences(); len(got) != 1 {
		t.Errorf("handed out %v, want 1 once", got)
	}
	if n := p.c.Status().Held; n != 0 {
		t.Errorf("%d held, want none", n)
	}
}

// The verdict did not get through: the copy gets it as soon as it arrives.
func TestS4_CopyOfADecidedMessageGetsTheVerdict(t *testing.T) {
	t.Parallel()
	acks := mute{prefix: "+ACK"}
	acks.on.Store(true)
	p := newRig(t).replica(wait(200*time.Millisecond), acks.option(), before(func(c *consumer.Consumer) {
		consumer.SetResend(c, time.Hour)
	}))
	p.publish(1, 1)
	m := p.got(1)[0]
	m.Ack()
	natstest.Until(t, "the ack fails", natstest.Patience, func() bool { return p.c.Status().Counts.SendErrors == 1 })
	acks.on.Store(false)
	p.ended(consumer.Acked, m)
	p.settled()
	p.only(1, natstest.Ack, 1, 1)
	if got := p.wire.Verdicts(1)[0].Deliveries; got != 2 {
		t.Errorf("copy %d was acked, want 2", got)
	}
	if got := p.sequences(); len(got) != 1 {
		t.Errorf("handed out %v, want 1 once", got)
	}
}

// A copy that was under way when the verdict was confirmed gets it again, and is not handed out.
func TestS4_CopyOfAMessageDecidedAMomentAgo(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica()
	p.publish(1, 2)
	ms := p.got(2)
	ms[0].Ack()
	ms[1].Term()
	p.ended(consumer.Acked, ms[0])
	p.ended(consumer.Termed, ms[1])
	for i, m := range ms {
		late := fmt.Sprintf("$JS.ACK.%s.%s.2.%d.%d.%d.0", stream, durable, i+1, i+3, m.Stored().UnixNano())
		consumer.Deliver(p.c, late, "late")
	}
	p.wire.WaitFor(t, "both verdicts a second time", func([]natstest.Settlement) bool {
		return len(p.wire.Verdicts(1)) == 2 && len(p.wire.Verdicts(2)) == 2
	})
	p.only(1, natstest.Ack, 2, 2)
	p.only(2, natstest.Term, 2, 2)
	natstest.Until(t, "the repeated verdicts are confirmed", natstest.Patience, func() bool {
		return p.c.Status().Unconfirmed == 0
	})
	p.publish(3, 3)
	if got := p.got(3); len(got) != 3 || got[2].Sequence() != 3 {
		t.Errorf("handed out %v, want 1 2 3", p.sequences())
	}
	p.ended(consumer.Acked, ms[0]) // and told of it once
	p.ended(consumer.Termed, ms[1])
}

// The same sequence with another time is another message.
func TestS4_SameSequenceOfAnotherTimeIsNoCopy(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica()
	p.publish(1, 1)
	m := p.got(1)[0]
	m.Ack()
	p.ended(consumer.Acked, m)
	other := fmt.Sprintf("$JS.ACK.%s.%s.1.1.1.%d.0", stream, durable, m.Stored().Add(time.Hour).UnixNano())
	consumer.Deliver(p.c, other, "other")
	if got := p.got(2)[1]; string(got.Data()) != "other" {
		t.Errorf("handed out %q, want the other one", got.Data())
	}
}

// A late ack is accepted, whoever works on the newer copy: nothing is given back, nothing lost.
func TestCase9_LateAck(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.replica(wait(300*time.Millisecond), holds(1))
	r.publish(1, 1)
	first := a.got(1)[0]
	a.proxy.Stall(natstest.ClientToServer)
	b := r.replica(wait(300*time.Millisecond), holds(1))
	second := b.got(1)[0]
	a.proxy.Resume(natstest.ClientToServer)
	first.Ack()
	a.ended(consumer.Acked, first)
	r.settled()
	b.beats(6) // it does not know
	second.Ack()
	b.ended(consumer.Acked, second)
	a.only(1, natstest.Ack, 1, 1)
	b.only(1, natstest.Ack, 1, 1)
	if n := len(a.sequences()) + len(b.sequences()); n != 2 {
		t.Errorf("%d handed out, want 1 to each", n)
	}
}
