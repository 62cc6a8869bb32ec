package consumer_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// asked is what the pulls seen so far ask for in all.
func asked(pulls []natstest.Pull) (n int) {
	for _, p := range pulls {
		n += p.Batch
	}
	return n
}

// Pulls together never ask for more than there is room for: what was asked for in all is at most what was
// settled and what may be held.
func TestL2_PullsAskForNoMoreThanThereIsRoom(t *testing.T) {
	t.Parallel()
	const limit, n = 8, 100
	p := newRig(t).replica(most(limit))
	p.publish(1, n)
	for i := range n {
		m := p.got(i + 1)[i]
		if got := asked(p.pulls.All()); got > i+limit {
			t.Fatalf("%d asked for when %d are settled, with room for %d", got, i, limit)
		}
		m.Ack()
		p.ended(consumer.Acked, m)
	}
	p.settled()
	if got := len(p.sequences()); got != n {
		t.Errorf("%d handed out, want %d", got, n)
	}
}

// Pulls that expire unserved are accounted for: the next ask for the same room, no more.
func TestL2_ExpiredPulls(t *testing.T) {
	t.Parallel()
	const limit = 4
	p := newRig(t).replica(most(limit), before(func(c *consumer.Consumer) {
		consumer.SetPulls(c, 1500*time.Millisecond, 500*time.Millisecond)
	}))
	p.publish(1, 1)
	p.got(1)
	p.pulls.WaitFor(t, "four pulls", func(seen []natstest.Pull) bool { return len(seen) >= 4 })
	pulls := p.pulls.All()
	for i, pull := range pulls {
		want := limit - 1
		if i == 0 {
			want = limit
		}
		if pull.Batch != want {
			t.Errorf("pull %d asks for %d, want %d", i+1, pull.Batch, want)
		}
		if pull.Reply != pulls[0].Reply {
			t.Errorf("pull %d is for another inbox, as if the one before was lost", i+1)
		}
	}
	p.publish(2, 9)
	p.got(limit)
	p.beats(4 * limit)
	if got := len(p.sequences()); got != limit {
		t.Errorf("%d held, want %d", got, limit)
	}
}

// SetLimit narrows what is held, to nothing if need be, and widens it again.
func TestL2_SetLimit(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(holds(1))
	p.publish(1, 10)
	first := p.got(1)[0]
	p.beats(6)
	if got := p.sequences(); len(got) != 1 {
		t.Fatalf("%v are held, want one", got)
	}
	if got := asked(p.pulls.All()); got != 1 {
		t.Errorf("%d asked for, want 1", got)
	}
	p.c.SetLimit(0)
	first.Ack()
	p.ended(consumer.Acked, first)
	p.ackPending(0)
	if got := len(p.pulls.All()); got != 1 {
		t.Errorf("%d pulls, want no other", got)
	}
	p.c.SetLimit(3)
	p.got(4)
	p.c.SetLimit(1 << 30) // MaxAckPending is the most
	ms := p.got(10)
	for _, pull := range p.pulls.All() {
		if pull.Batch > consumer.DefaultMaxAckPending {
			t.Errorf("%d asked for", pull.Batch)
		}
	}
	for _, m := range ms {
		m.Ack()
	}
	p.settled()
}

// What was asked for before is taken back with a limit of none: others get it.
func TestL2_SetLimitTakesBackWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.replica(holds(5))
	a.pulls.Last(t)
	r.check("flush", a.conn.FlushTimeout(natstest.Patience))
	a.c.SetLimit(0)
	r.check("flush", a.conn.FlushTimeout(natstest.Patience))
	b := r.replica()
	r.publish(1, 10)
	b.got(10)
	a.c.SetLimit(1)
	r.publish(11, 12) // one to each, as they have asked
	natstest.Until(t, "it takes part again", natstest.Patience, func() bool {
		return len(a.sequences())+len(b.sequences()) == 12
	})
	if got := a.sequences(); len(got) > 1 || len(got) == 1 && got[0] < 11 {
		t.Errorf("handed out %v", got)
	}
}

// Memory is bounded by MaxAckPending, over all replicas and whatever is in the stream.
func TestL2_HeldIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.replica(most(10)), r.replica(most(10))
	r.publish(1, 100)
	r.ackPending(10)
	a.beats(1)
	natstest.Until(t, "ten are held, by both together", natstest.Patience, func() bool {
		return a.c.Status().Held+b.c.Status().Held == 10
	})
	if n := r.info().NumAckPending; n != 10 {
		t.Errorf("%d unsettled, want 10", n)
	}
}

// Payloads are let go of after mapping.
func TestL2_Drop(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(work(func(m *consumer.Message) {
		if string(m.Data()) != "1" || m.Subject() != "orders.created.1" || m.Header().Get("Kind") != "test" {
			t.Errorf("got %q on %q with %v", m.Data(), m.Subject(), m.Header())
		}
		m.Drop()
	}))
	_, err := p.js.PublishMsg(p.ctx(), &nats.Msg{
		Subject: "orders.created.1", Data: []byte("1"), Header: nats.Header{"Kind": {"test"}},
	})
	p.check("publish", err)
	m := p.got(1)[0]
	m.Ack() // whatever was dropped
	p.ended(consumer.Acked, m)
	if m.Data() != nil || m.Subject() != "" || m.Header() != nil {
		t.Errorf("%q %q %v are still there", m.Subject(), m.Data(), m.Header())
	}
}

// After each status that ends pulls it is pulled anew, for the same room, and a message arrives within one
// idle heartbeat. A status for a pull that was given up counts for nothing.
func TestCase1_StatusesEndPulls(t *testing.T) {
	t.Parallel()
	for i, status := range []struct {
		code int
		desc string
		left string
	}{
		{409, "Leadership Change", ""},
		{409, "Server Shutdown", ""},
		{409, "Consumer Deleted", ""},
		{409, "Exceeded MaxWaiting", ""},
		{409, "Message Size Exceeds MaxBytes", "8"},
		{503, "", ""},
		{400, "Bad Request", ""},
		{408, "Request Timeout", "8"},
		{408, "Request Timeout", ""},
		{404, "No Messages", ""},
	} {
		t.Run(strconv.Itoa(status.code)+" "+status.desc, func(t *testing.T) {
			t.Parallel()
			const limit, pulse = 8, 2 * time.Second
			p := newRig(t).replica(most(limit))
			p.pulls.Last(t)
			before := len(p.pulls.All())
			extra := nats.Header{}
			if status.left != "" {
				extra.Set("Nats-Pending-Messages", status.left)
			}
			pull := p.status(status.code, status.desc, extra)
			p.pulls.WaitFor(t, "another pull", func(seen []natstest.Pull) bool { return len(seen) > before })
			began := time.Now()
			p.publish(1, 1)
			m := p.got(1)[0]
			if took := time.Since(began); took > pulse {
				t.Errorf("delivered after %v", took)
			}
			next := p.pulls.Last(t)
			if next.Batch != limit {
				t.Errorf("case %d: asked for %d, want %d", i, next.Batch, limit)
			}
			if next.Reply != pull.Reply { // a new epoch: what comes for the old one is late
				for range 3 {
					natstest.InjectStatus(t, p.srv.Conn(), pull.Reply, status.code, status.desc, extra)
				}
			}
			p.publish(2, 20)
			p.got(limit)
			p.ackPending(limit)
			m.Ack()
			p.got(limit + 1)
			for _, m := range p.got(limit + 1) {
				m.Ack()
			}
			for i := limit + 1; i < 20; i++ {
				p.got(i + 1)[i].Ack()
			}
			p.settled()
			p.healthy()
		})
	}
}

// What the server says of a pull that was given up is no news: neither its end nor what it had left counts.
func TestL2_StatusOfAnOldPull(t *testing.T) {
	t.Parallel()
	const limit = 8
	p := newRig(t).replica(most(limit))
	p.status(409, "Leadership Change", nil)
	p.pulls.WaitFor(t, "another pull", func(seen []natstest.Pull) bool { return len(seen) == 2 })
	for _, status := range []string{"408", "404", "409", "503"} {
		consumer.DeliverStatus(p.c, nats.Header{"Status": {status}, "Nats-Pending-Messages": {"8"}})
	}
	p.publish(1, 20)
	p.got(limit)
	p.beats(4 * limit)
	if n := len(p.sequences()); n != limit {
		t.Errorf("%d held, want %d", n, limit)
	}
	if n := len(p.pulls.All()); n != 2 {
		t.Errorf("%d pulls, want 2", n)
	}
}

// Trouble that does not end is not met with a storm of pulls and look-ups.
func TestCase3_BackoffInLastingTrouble(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica()
	seen := p.srv.Conn()
	lookUps, err := seen.SubscribeSync(fmt.Sprintf("$JS.API.CONSUMER.INFO.%s.%s", stream, durable))
	p.check("subscribe", err)
	p.check("flush", seen.Flush())
	for range 6 { // 50 + 100 + 200 + 400 + 800 ms
		p.pulls.Last(t)
		n := len(p.pulls.All())
		p.status(409, "Exceeded MaxWaiting", nil)
		p.pulls.WaitFor(t, "another pull", func(seen []natstest.Pull) bool { return len(seen) > n })
	}
	pulls := p.pulls.All()
	if took := pulls[6].At.Sub(pulls[1].At); took < 1500*time.Millisecond {
		t.Errorf("six times the same trouble within %v", took)
	}
	if n, _, err := lookUps.Pending(); err != nil || n > 8 {
		t.Errorf("%d look-ups, %v", n, err)
	}
}

// The server takes a pull and is never heard of again: it is pulled anew.
func TestL4_SilentPull(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var deaf atomic.Bool
	deaf.Store(true)
	p := r.replica(hurry, before(func(c *consumer.Consumer) {
		consumer.Swallow(c, func(subject, _ string) bool {
			return deaf.Load() && strings.Contains(subject, ".MSG.NEXT.")
		})
	}))
	r.publish(1, 1)
	err := p.unhealthy()
	names(t, err, "does not answer pulls", "CONSUMER.MSG.NEXT.ORDERS.worker")
	deaf.Store(false)
	p.got(1)[0].Ack()
	r.settled()
	p.healthy()
	if n := len(p.log.containing("ERROR", "does not answer pulls")); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// The server says that a pull is alive, messages are pending, and none arrive: it is pulled anew, and said.
func TestCase1_StuckPull(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var deaf atomic.Bool
	var inbox atomic.Value
	deaf.Store(true)
	p := r.replica(hurry, before(func(c *consumer.Consumer) {
		consumer.Swallow(c, func(subject, reply string) bool {
			if !strings.Contains(subject, ".MSG.NEXT.") {
				return false
			}
			inbox.Store(reply)
			return deaf.Load()
		})
	}))
	r.publish(1, 1)
	alive := func() {
		natstest.InjectStatus(t, r.srv.Conn(), inbox.Load().(string), 100, "Idle Heartbeat", nil)
	}
	natstest.Until(t, "it is noticed", natstest.Patience, func() bool {
		alive()
		return len(p.log.containing("WARN", "pulling anew")) > 0
	})
	if err := p.c.Healthy(); err != nil {
		t.Errorf("unhealthy at the first stall: %v", err)
	}
	natstest.Until(t, "it is unhealthy", natstest.Patience, func() bool {
		alive()
		return p.c.Healthy() != nil
	})
	names(t, p.c.Healthy(), "1 messages are pending")
	deaf.Store(false)
	natstest.Until(t, "the message arrives", natstest.Patience, func() bool {
		alive()
		return len(p.sequences()) > 0
	})
	p.got(1)[0].Ack()
	r.settled()
	p.healthy()
}
