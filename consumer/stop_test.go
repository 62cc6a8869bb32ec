package consumer_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// What the Handler was not handed goes back at once when pulling stops: a second replica has it within a
// second, not after AckWait, and nothing twice.
func TestCase22_StopPullingGivesBackWhatIsBuffered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 50
	release := make(chan struct{})
	a := r.replica(wait(30*time.Second), work(func(*consumer.Message) { <-release }))
	r.publish(1, n)
	natstest.Until(t, "all are held", natstest.Patience, func() bool { return a.c.Status().Held == n })
	b := r.replica(wait(30 * time.Second))
	began := time.Now()
	r.check("stop pulling", a.c.StopPulling(r.ctx()))
	b.got(n - 1)
	if took := time.Since(began); took > time.Second {
		t.Errorf("the other has them after %v", took)
	}
	if held := a.c.Held(); len(held) != 1 || held[0].Sequence() != 1 {
		t.Errorf("%d are held, want the one in work", len(held))
	}
	if a.c.Healthy() == nil {
		t.Error("healthy though it was stopped")
	}
	first := a.got(1)[0]
	first.Ack()
	a.ended(consumer.Acked, first)
	close(release)
	r.check("close", a.c.Close(r.ctx()))
	r.publish(n+1, n+1)
	for _, m := range b.got(n) {
		m.Ack()
	}
	r.settled()
	want := make([]uint64, n)
	for i := range want {
		want[i] = uint64(i + 2)
	}
	got := b.sequences()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the other was handed %v, want 2 to %d", got, n+1)
	}
	if got := a.sequences(); len(got) != 1 {
		t.Errorf("the first was handed %v, want 1", got)
	}
}

// Messages under way when pulling stops are given back too.
func TestCase22_StopPullingTakesInWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.replica(wait(30 * time.Second))
	a.pulls.Last(t)
	r.check("flush", a.conn.FlushTimeout(natstest.Patience))
	a.proxy.Stall(natstest.ServerToClient)
	r.publish(1, 20)
	r.ackPending(20)
	stopped := make(chan error, 1)
	go func() { stopped <- a.c.StopPulling(r.ctx()) }()
	natstest.Until(t, "it stops", natstest.Patience, func() bool { return a.c.Healthy() != nil })
	b := r.replica(wait(30 * time.Second))
	a.proxy.Resume(natstest.ServerToClient)
	r.check("stop pulling", <-stopped)
	b.got(20)
	if got := a.sequences(); len(got) != 0 {
		t.Errorf("%v were handed out after the stop", got)
	}
}

// Close returns when the server has confirmed, and what was decided is settled then.
func TestT1_CloseConfirms(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(wait(30 * time.Second))
	p.publish(1, 100)
	ms := p.got(100)
	for _, m := range ms {
		m.Ack()
	}
	p.check("close", p.c.Close(p.ctx()))
	if n := p.info().NumAckPending; n != 0 {
		t.Errorf("%d unsettled", n)
	}
	p.ended(consumer.Acked, ms...)
	for range 2 {
		p.check("close again", p.c.Close(p.ctx()))
		p.check("stop pulling again", p.c.StopPulling(p.ctx()))
	}
}

// The connection is cut right after the acks: they arrive with the next one, and are all that arrives.
func TestCase11_CutRightAfterTheAck(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica() // what is on its way to a connection that is cut comes again after AckWait
	seq := uint64(0)
	for _, direction := range []natstest.Direction{natstest.ClientToServer, natstest.ServerToClient, -1} {
		for range 5 {
			seq++
			p.publish(int(seq), int(seq))
			m := p.got(int(seq))[seq-1]
			if direction >= 0 { // the ack, or its answer, is lost
				p.proxy.Stall(direction)
			}
			m.Ack()
			p.proxy.Cut()
			if direction >= 0 {
				p.proxy.Resume(direction)
			}
			p.ended(consumer.Acked, m)
		}
	}
	p.settled()
	for i := range seq {
		p.only(i+1, natstest.Ack, 1, 3)
	}
	if got := p.sequences(); len(got) != int(seq) {
		t.Errorf("handed out %v, want each once", got)
	}
}

// The same at exit: Close waits for the connection to come back, and for the confirmation.
func TestCase11_CloseWaitsForTheConnection(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(wait(30 * time.Second))
	p.publish(1, 3)
	ms := p.got(3)
	end := p.outage()
	for _, m := range ms {
		m.Ack()
	}
	closed := make(chan error, 1)
	go func() { closed <- p.c.Close(p.ctx()) }()
	p.unhealthy()
	end()
	p.check("close", <-closed)
	if n := p.info().NumAckPending; n != 0 {
		t.Errorf("%d unsettled", n)
	}
	p.ended(consumer.Acked, ms...)
}

// No connection, no durable: Close returns when its context ends, and says what was not confirmed.
func TestT1_CloseReturnsByItsContext(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(p *replica){
		"no connection": func(p *replica) { p.outage(); p.unhealthy() },
		"silence":       func(p *replica) { p.proxy.Stall(natstest.ClientToServer) },
		"no stream":     func(p *replica) { p.deleteStream(); p.unhealthy() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRig(t).replica(hurry)
			p.publish(1, 4)
			ms := p.got(4)
			trouble(p)
			ms[0].Ack()
			ms[1].Term()
			ms[2].GiveBack(0)
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			err := p.c.Close(ctx)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("closed after %v", took)
			}
			names(t, err, "2 verdicts")
			p.ended(consumer.Unconfirmed, ms[0], ms[1])
			p.ended(consumer.GivenBack, ms[2], ms[3])
			if ms[3].Ack() {
				t.Error("a message could be acked after Close")
			}
		})
	}
}

// A Handler that does not return does not keep Close for ever.
func TestT1_CloseWithABusyHandler(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	p := newRig(t).replica(wait(30*time.Second), work(func(*consumer.Message) { <-release }))
	p.publish(1, 1)
	m := p.got(1)[0]
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	names(t, p.c.Close(ctx), "busy")
	p.ended(consumer.GivenBack, m)
	close(release)
}

// Everything may be called in any state.
func TestStates(t *testing.T) {
	t.Parallel()
	p, err := newRig(t).open()
	p.check("open", err)
	p.check("stop pulling before the start", p.c.StopPulling(p.ctx()))
	if p.c.Healthy() == nil || len(p.c.Held()) != 0 {
		t.Error("healthy before the start")
	}
	p.c.SetLimit(5)
	p.check("start", p.c.Start(p.desk))
	if p.c.Start(p.desk) == nil {
		t.Error("started twice")
	}
	var stops sync.WaitGroup
	for range 4 {
		stops.Go(func() {
			if err := errors.Join(p.c.StopPulling(p.ctx()), p.c.Close(p.ctx())); err != nil {
				t.Error(err)
			}
		})
	}
	stops.Wait()
	if p.c.Start(p.desk) == nil {
		t.Error("started after Close")
	}
	p.c.SetLimit(7)
	other, err := p.open()
	p.check("open", err)
	p.check("close before the start", other.c.Close(p.ctx()))
	if other.c.Start(p.desk) == nil {
		t.Error("started after Close")
	}
}

// A consumer that was closed leaves no subscription and no goroutine, whatever it went through.
func TestNothingIsLeftBehind(t *testing.T) { // not parallel: it looks at all goroutines
	r := newRig(t)
	p, err := r.open(hurry, ack)
	r.check("open", err)
	had := p.conn.NumSubscriptions()
	r.check("start", p.c.Start(p.desk))
	r.publish(1, 10)
	p.got(10)
	p.status(409, "Leadership Change", nil)
	r.deleteDurable()
	p.wasRecovered(1)
	end := p.outage()
	p.unhealthy()
	end()
	p.healthy()
	r.publish(11, 20)
	p.got(20)
	r.check("close", p.c.Close(r.ctx()))
	natstest.Until(t, "the subscriptions are gone", natstest.Patience, func() bool {
		return p.conn.NumSubscriptions() <= had
	})
	natstest.Until(t, "the goroutines are gone", natstest.Patience, func() bool {
		buf := make([]byte, 1<<20)
		return !strings.Contains(string(buf[:runtime.Stack(buf, true)]), "jsource/consumer.(*Consumer)")
	})
}
