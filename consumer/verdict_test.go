package consumer_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// A message has one verdict, whatever is asked of it afterwards, and no heartbeat follows it.
func TestS3_OneVerdict(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(hurry)
	p.publish(1, 3)
	ms := p.got(3)
	for i, first := range []func(*consumer.Message) bool{
		(*consumer.Message).Ack,
		(*consumer.Message).Term,
		func(m *consumer.Message) bool { return m.GiveBack(time.Hour) },
	} {
		if !first(ms[i]) {
			t.Errorf("message %d did not take its decision", i+1)
		}
		if ms[i].Ack() || ms[i].Term() || ms[i].GiveBack(0) {
			t.Errorf("message %d took a second decision", i+1)
		}
	}
	p.ended(consumer.Acked, ms[0])
	p.ended(consumer.Termed, ms[1])
	p.ended(consumer.GivenBack, ms[2])
	p.only(1, natstest.Ack, 1, 1)
	p.only(2, natstest.Term, 1, 1)
	p.only(3, natstest.Nak, 1, 1)
}

// What the connection does not take, and what the server does not answer, is sent again, and nothing else.
func TestS3_RepeatedUntilConfirmed(t *testing.T) {
	t.Parallel()
	var refused atomic.Int32
	p := newRig(t).replica(hurry, before(func(c *consumer.Consumer) {
		consumer.Intercept(c, func(_ string, data []byte) error {
			if string(data) == "+ACK" && refused.Add(1) <= 3 {
				return errors.New("not now")
			}
			return nil
		})
	}))
	p.publish(1, 1)
	m := p.got(1)[0]
	p.proxy.Stall(natstest.ServerToClient) // the answers do not arrive
	m.Ack()
	p.wire.WaitFor(t, "the ack is sent three times", func([]natstest.Settlement) bool {
		return len(p.wire.Verdicts(1)) >= 3
	})
	if ends := p.endings(m); len(ends) > 0 {
		t.Errorf("ended with %v before the server has confirmed", ends)
	}
	m.GiveBack(0)
	m.Term()
	p.proxy.Resume(natstest.ServerToClient)
	p.ended(consumer.Acked, m)
	p.settled()
	p.only(1, natstest.Ack, 3, 1000)
	if n := refused.Load(); n < 6 {
		t.Errorf("tried %d times, want the 3 that failed and 3 more", n)
	}
	if ws := p.wire.Of(1); slices.ContainsFunc(ws[slices.IndexFunc(ws, natstest.Settlement.Verdict):],
		func(s natstest.Settlement) bool { return !s.Verdict() }) {
		t.Errorf("something else follows the verdict: %v", ws)
	}
}

// Unconfirmed at the bound, it is left to redelivery: not repeated, not given back. The copy gets the
// verdict and is not handed out.
func TestS3_LeftToRedeliveryAfterTheBound(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(hurry, before(func(c *consumer.Consumer) {
		consumer.SetConfirmBound(c, 300*time.Millisecond)
	}))
	p.publish(1, 1)
	m := p.got(1)[0]
	p.proxy.Stall(natstest.ClientToServer) // it will arrive much later
	p.proxy.Stall(natstest.ServerToClient)
	m.Term()
	p.ended(consumer.Unconfirmed, m)
	p.proxy.Cut() // nothing of it arrives at all
	p.proxy.Resume(natstest.ClientToServer)
	p.proxy.Resume(natstest.ServerToClient)
	p.settled()
	p.only(1, natstest.Term, 1, 1)
	if got := p.wire.Verdicts(1)[0].Deliveries; got != 2 {
		t.Errorf("the verdict was given to copy %d, want 2", got)
	}
	if got := p.sequences(); len(got) != 1 {
		t.Errorf("handed out %v, want 1 once", got)
	}
	if s := p.c.Status(); s.Counts.Unconfirmed != 1 || s.Held != 0 {
		t.Errorf("status %+v, want 1 unconfirmed", s)
	}
}

// Another replica that has a copy may repeat the verdict, or give another: the first counts.
func TestS3_AnotherReplicaRepeatsItHarmlessly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.replica(hurry, wait(300*time.Millisecond), holds(1))
	r.publish(1, 1)
	first := a.got(1)[0]
	a.proxy.Stall(natstest.ClientToServer) // its heartbeats do not arrive
	b := r.replica(hurry, wait(300*time.Millisecond))
	second := b.got(1)[0]
	second.Ack()
	b.ended(consumer.Acked, second)
	a.proxy.Resume(natstest.ClientToServer)
	first.Ack()
	a.ended(consumer.Acked, first)
	r.settled()
	if s := r.info(); s.AckFloor.Stream != 1 {
		t.Errorf("ack floor at %d, want 1", s.AckFloor.Stream)
	}
	a.only(1, natstest.Ack, 1, 1000)
	b.only(1, natstest.Ack, 1, 1000)
}

// Within the lease a message that is given back is back at once.
func TestL5_GivenBackAtOnceWithinTheLease(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(wait(30 * time.Second))
	p.publish(1, 1)
	m := p.got(1)[0]
	began := time.Now()
	m.GiveBack(0)
	again := p.got(2)[1]
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("back after %v", took)
	}
	if again == m || again.Deliveries() != 2 {
		t.Errorf("got %v, delivery %d, want another one, delivery 2", again, again.Deliveries())
	}
	p.ended(consumer.GivenBack, m)
	again.Ack()
	p.settled()
}

// A delay is the server's to keep.
func TestS7_GivenBackWithADelay(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(wait(30 * time.Second))
	p.publish(1, 1)
	const delay = 300 * time.Millisecond
	began := time.Now()
	p.got(1)[0].GiveBack(delay)
	p.got(2)
	if took := time.Since(began); took < delay {
		t.Errorf("back after %v, want %v", took, delay)
	}
	if got := p.wire.Of(1)[0].Delay(); got != delay {
		t.Errorf("asked for %v, want %v", got, delay)
	}
}

// A message whose heartbeats were not confirmed for longer than AckWait is not given back: somebody else
// may have it.
func TestL5_NoNakAfterTheLeaseLapsed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.replica(hurry, wait(300*time.Millisecond), holds(1))
	r.publish(1, 1)
	held := a.got(1)[0]
	a.beats(2)
	a.proxy.Stall(natstest.ClientToServer)
	b := r.replica(hurry, wait(300*time.Millisecond))
	b.got(1) // so the lease has lapsed
	a.proxy.Resume(natstest.ClientToServer)
	a.beats(6) // which are confirmed, and change nothing
	if !held.GiveBack(0) {
		t.Error("it was not held any more")
	}
	a.ended(consumer.GivenBack, held)
	b.beats(6)
	a.only(1, natstest.Nak, 0, 0)
	if n := r.info().NumAckPending; n != 1 {
		t.Errorf("%d unsettled, want 1", n)
	}
	if n := b.got(1)[0].Deliveries(); n != 2 {
		t.Errorf("delivery %d, want 2", n)
	}
}

// The same while no heartbeat gets through at all, so that nothing is known but the time.
func TestL5_NoNakWhenHeartbeatsFail(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	heartbeats := mute{prefix: "+WPI"}
	heartbeats.on.Store(true)
	a := r.replica(wait(300*time.Millisecond), holds(1), heartbeats.option())
	r.publish(1, 1)
	held := a.got(1)[0]
	b := r.replica(wait(300*time.Millisecond), holds(1))
	copied := b.got(1)[0]
	held.GiveBack(0)
	a.ended(consumer.GivenBack, held)
	b.beats(6)
	a.only(1, natstest.Nak, 0, 0)
	if n := copied.Deliveries(); n != 2 {
		t.Errorf("delivery %d, want 2", n)
	}
}

// What is held when the durable is made anew has no lease there: it is not given back.
func TestL5_NoNakAfterTheDurableWasMadeAnew(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(hurry, wait(500*time.Millisecond), holds(1))
	p.publish(1, 1)
	held := p.got(1)[0]
	p.beats(1)
	p.lost()
	p.wasRecovered(1)
	p.healthy()
	held.GiveBack(0)
	p.ended(consumer.GivenBack, held)
	again := p.got(2)[1]
	p.beats(3)
	p.only(1, natstest.Nak, 0, 0)
	if n := again.Deliveries(); n != 1 {
		t.Errorf("delivery %d, want the first of the new durable", n)
	}
}

// A copy whose count says that another replica was given one in between is not given back either.
func TestL5_NoNakAfterAnotherReplicaHadIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	heartbeats := mute{prefix: "+WPI"}
	heartbeats.on.Store(true)
	a := r.replica(hurry, wait(300*time.Millisecond), holds(1), heartbeats.option())
	r.publish(1, 1)
	held := a.got(1)[0]
	b := r.replica(hurry, wait(300*time.Millisecond), holds(1))
	b.got(1)
	b.proxy.Close() // it crashes
	a.c.SetLimit(2)
	natstest.Until(t, "the third copy", natstest.Patience, func() bool { return held.Deliveries() >= 3 })
	heartbeats.on.Store(false)
	a.beats(6)
	held.GiveBack(0)
	a.got(2) // by redelivery
	a.only(1, natstest.Nak, 0, 0)
}
