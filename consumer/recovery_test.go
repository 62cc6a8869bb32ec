package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// The durable is deleted under a running consumer: it is made again, what comes then is consumed, and
// meanwhile it was unhealthy and said so, once.
func TestCase3_DurableDeletedWhileConsuming(t *testing.T) {
	t.Parallel()
	var p *replica
	var health []error
	p, err := newRig(t).open(ack)
	p.check("open", err)
	p.desk.again = func() { health = append(health, p.c.Healthy()) }
	p.check("start", p.c.Start(p.desk))
	p.publish(1, 3)
	p.got(3)
	p.settled()
	p.deleteDurable()
	p.wasRecovered(1)
	p.healthy()
	p.publish(4, 4)
	if ms := p.got(4); ms[3].Sequence() != 4 {
		t.Errorf("handed out %v, want 1 2 3 4", p.sequences())
	}
	p.settled()
	if len(health) != 1 || health[0] == nil {
		t.Errorf("health while it was gone: %v", health)
	}
	for level, text := range map[string]string{"ERROR": "is gone", "WARN": "recovered", "INFO": "consuming again"} {
		if n := len(p.log.containing(level, text)); n != 1 {
			t.Errorf("%s %q was logged %d times", level, text, n)
		}
	}
	if n := p.c.Status().Counts.Recoveries; n != 1 {
		t.Errorf("%d recoveries counted", n)
	}
}

// A durable that is deleted again and again comes back again and again, at a slowing pace.
func TestCase3_DurableDeletedAgainAndAgain(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(ack)
	began := time.Now()
	const n = 6
	for i := range n {
		p.deleteDurable()
		p.wasRecovered(i + 1)
		p.publish(i+1, i+1)
		p.got(i + 1)
	}
	p.settled()
	if took := time.Since(began); took < 1500*time.Millisecond { // 50 + 100 + 200 + 400 + 800 ms
		t.Errorf("made %d times within %v", n, took)
	}
}

// The durable is deleted while the client is disconnected, when nobody is told.
func TestCase2_DurableDeletedWhileDisconnected(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(ack)
	p.publish(1, 3)
	p.got(3)
	p.settled()
	end := p.outage()
	names(t, p.unhealthy(), "connection")
	p.deleteDurable()
	p.publish(4, 6)
	end()
	p.got(6)
	p.settled()
	p.healthy()
	if got := p.sequences(); !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6}) {
		t.Errorf("handed out %v, want 1 to 6 once", got)
	}
	if n := len(p.log.containing("ERROR", "connection")); n != 1 {
		t.Errorf("the outage was logged %d times", n)
	}
}

// The same, and the server has lost it while it was down.
func TestCase2_DurableLostWithTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.replica(ack)
	r.publish(1, 3)
	p.got(3)
	r.settled()
	p.proxy.Refuse(true)
	r.srv.Restart()
	p.unhealthy()
	r.deleteDurable()
	r.publish(4, 6)
	p.proxy.Refuse(false)
	p.got(6)
	r.settled()
	p.healthy()
}

// A durable made again resumes at the last settled position.
func TestCase4_ResumesBehindTheLastSettled(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(hurry, ack)
	p.publish(1, 5)
	p.got(5)
	natstest.Until(t, "the floor was polled", natstest.Patience, func() bool { return p.c.Status().AckFloor == 5 })
	p.lost()
	p.publish(6, 6)
	p.got(6)
	p.settled()
	if got := p.sequences(); !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6}) {
		t.Errorf("handed out %v, want exactly 6 after 5", got)
	}
	for seq := range uint64(6) {
		p.only(seq+1, natstest.Ack, 1, 1) // none came again
	}
}

// The floor was never polled: what this replica has settled comes again, and is acked unreconciled.
func TestL4_SettledMessagesAreAckedAgain(t *testing.T) {
	t.Parallel()
	never := before(func(c *consumer.Consumer) { consumer.SetPoll(c, time.Hour) })
	p := newRig(t).replica(never, work(func(m *consumer.Message) {
		if m.Sequence() == 3 {
			m.Term()
			return
		}
		m.Ack()
	}))
	p.publish(1, 5)
	p.got(5)
	p.settled()
	p.deleteDurable()
	p.wasRecovered(1)
	p.publish(6, 6)
	p.got(6)
	p.settled()
	if got := p.sequences(); !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6}) {
		t.Errorf("handed out %v, want each once", got)
	}
	for _, seq := range []uint64{1, 2, 4, 5} {
		p.only(seq, natstest.Ack, 2, 10)
	}
	p.only(3, natstest.Term, 2, 10)
}

// What is held when the durable is deleted stays held, comes again, and is settled once; what is given back
// is not, since it may be somebody else's by now, until its copy has arrived.
func TestL4_HeldMessagesOutliveTheDurable(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(hurry)
	p.publish(1, 6)
	ms := p.got(6)
	ms[0].Ack()
	ms[4].Ack()
	p.ended(consumer.Acked, ms[0], ms[4])
	p.lost()
	p.wasRecovered(1)
	natstest.Until(t, "copies of what is held have arrived", natstest.Patience, func() bool {
		return p.c.Status().Counts.Absorbed == 4
	})
	p.beats(8)
	for _, m := range []*consumer.Message{ms[1], ms[2], ms[3]} {
		m.Ack()
	}
	p.ended(consumer.Acked, ms[1], ms[2], ms[3])
	ms[5].GiveBack(0)
	p.got(7)[6].Ack()
	p.settled()
	if got := p.sequences(); !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6, 6}) {
		t.Errorf("handed out %v, want each once, and 6 again", got)
	}
}

// A verdict on its way when the durable is deleted ends as well.
func TestL4_UnconfirmedVerdictOutlivesTheDurable(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(hurry)
	p.publish(1, 3)
	ms := p.got(3)
	p.proxy.Stall(natstest.ClientToServer)
	ms[1].Ack()
	ms[2].GiveBack(0)
	p.deleteDurable()
	p.proxy.Resume(natstest.ClientToServer)
	p.wasRecovered(1)
	p.ended(consumer.Acked, ms[1])
	ms[0].Ack()
	p.ended(consumer.Acked, ms[0])
	natstest.Until(t, "3 is handed out again", natstest.Patience, func() bool { return len(p.sequences()) == 4 })
	p.got(4)[3].Ack()
	p.settled()
	if got := p.sequences(); !slices.Equal(got, []uint64{1, 2, 3, 3}) {
		t.Errorf("handed out %v, want 3 twice", got)
	}
}

// The server is restarted many times while events are published: each is handed out, without help.
func TestCase6_ServerRestartedUnderPublishing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.replica(wait(5*time.Second), ack)
	ctx, stop := context.WithCancel(r.ctx())
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			pctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			_, _ = r.js.Publish(pctx, "orders.created", nil) // what the stream holds is what counts
			cancel()
			select {
			case <-time.After(2 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	for range 20 {
		r.srv.Restart()
		natstest.WaitConnected(t, p.conn)
		n := len(p.sequences())
		p.got(n + 5)
	}
	stop()
	publishing.Wait()
	s, err := r.js.Stream(r.ctx(), stream)
	r.check("stream", err)
	r.settled()
	if last := s.CachedInfo().State.LastSeq; uint64(len(handed(p))) != last {
		t.Errorf("%d of %d were handed out", len(handed(p)), last)
	}
	p.healthy()
}

// A restart with messages in work: none is handed out again, all are settled.
func TestCase5_ServerRestartedWithMessagesHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.replica(wait(5 * time.Second))
	r.publish(1, 10)
	ms := p.got(10)
	r.srv.Stop()
	for _, m := range ms[:5] {
		m.Ack() // nobody there to hear it
	}
	r.srv.Restart()
	p.ended(consumer.Acked, ms[:5]...)
	for _, m := range ms[5:] {
		m.Ack()
	}
	p.ended(consumer.Acked, ms...)
	r.settled()
	for seq := range uint64(10) {
		p.only(seq+1, natstest.Ack, 1, 10)
	}
	if got := len(p.sequences()); got != 10 {
		t.Errorf("%d handed out, want 10", got)
	}
}

// One replica crashes with ten held, the durable is deleted, and the other, which is far past them, makes
// it again: all are handed out.
func TestCase33_CrashAndDeletedDurable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.replica(hurry, holds(10))
	r.publish(1, 10)
	a.got(10)
	b := r.replica(hurry, ack)
	r.publish(11, 20)
	b.got(10)
	a.proxy.Close() // it crashes
	r.deleteDurable()
	b.got(20)
	r.settled()
	got := b.sequences()
	slices.Sort(got)
	for i := range uint64(20) {
		if got[i] != i+1 {
			t.Fatalf("handed out %v, want 1 to 20", got)
		}
	}
}

// handed is what replicas were handed in all, each once, in order.
func handed(replicas ...*replica) (seqs []uint64) {
	for _, p := range replicas {
		seqs = append(seqs, p.sequences()...)
	}
	slices.Sort(seqs)
	return slices.Compact(seqs)
}

// Two replicas notice at once: one makes it, the other goes on with that.
func TestL4_ReplicasMakeTheDurableTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.replica(hurry, ack), r.replica(hurry, ack)
	for i := range 5 {
		r.publish(i+1, i+1)
		natstest.Until(t, "it was handed out", natstest.Patience, func() bool { return len(handed(a, b)) == i+1 })
		r.settled()
		r.deleteDurable()
		a.wasRecovered(i + 1)
		b.wasRecovered(i + 1)
	}
	r.publish(6, 6)
	natstest.Until(t, "1 to 6 were handed out", natstest.Patience, func() bool { return len(handed(a, b)) == 6 })
	r.settled()
	a.healthy()
	b.healthy()
}

// Somebody makes the durable again in a way that loses messages: it is not used, and named, until it is put
// right.
func TestL4_DurableMadeAnewUnsafe(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.replica(hurry)
	r.publish(1, 1)
	m := p.got(1)[0]
	end := p.outage()
	p.unhealthy()
	r.deleteDurable()
	r.made(func(cfg *jetstream.ConsumerConfig) { cfg.MaxDeliver = 2 })
	end()
	natstest.Until(t, "it is named", natstest.Patience, func() bool {
		err := p.c.Healthy()
		return err != nil && !errors.Is(err, nats.ErrConnectionClosed) && len(p.log.containing("max_deliver")) > 0
	})
	m.Ack() // which waits: nobody knows what it would hit
	r.check("flush", p.conn.FlushTimeout(natstest.Patience))
	p.only(1, natstest.Ack, 0, 0)
	cfg := r.info().Config
	cfg.MaxDeliver = -1
	_, err := r.js.UpdateConsumer(r.ctx(), stream, cfg)
	r.check("update", err)
	p.ended(consumer.Acked, m)
	r.settled()
	p.healthy()
	if n := len(p.log.containing("ERROR", "max_deliver")); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// Under Bind nothing is made: it waits until somebody does.
func TestL4_BindWaitsForTheDurable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.made(func(*jetstream.ConsumerConfig) {})
	p := r.replica(hurry, bind, ack)
	r.publish(1, 1)
	p.got(1)
	r.settled()
	r.deleteDurable()
	names(t, p.unhealthy(), durable, stream)
	natstest.Until(t, "Bind is named", natstest.Patience, func() bool {
		return len(p.log.containing("ERROR", "Bind forbids")) == 1
	})
	r.publish(2, 2)
	r.made(func(*jetstream.ConsumerConfig) {})
	natstest.Until(t, "2 is handed out", natstest.Patience, func() bool { return slices.Contains(p.sequences(), 2) })
	r.settled()
	p.healthy()
	if n := len(p.log.containing("ERROR")); n != 2 { // it is gone; and Bind forbids
		t.Errorf("logged %d errors: %v", n, p.log.containing("ERROR"))
	}
}

// Messages are purged while they are in work: nothing stays pending, later events flow, and a settlement of
// one that has vanished ends.
func TestCase16_PurgeWithMessagesHeld(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(hurry)
	p.publish(1, 5)
	ms := p.got(5)
	ms[3].Ack()
	s, err := p.js.Stream(p.ctx(), stream)
	p.check("stream", err)
	p.check("purge", s.Purge(p.ctx()))
	p.ackPending(0)
	ms[0].Ack()
	ms[1].Term()
	ms[2].GiveBack(0)
	p.ended(consumer.Acked, ms[0], ms[3])
	p.ended(consumer.Termed, ms[1])
	p.ended(consumer.GivenBack, ms[2])
	p.publish(6, 7)
	later := p.got(7)
	later[5].Ack()
	later[6].Ack()
	p.settled()
	natstest.Until(t, "no answer is awaited", natstest.Patience, func() bool { return p.c.Status().Unconfirmed == 0 })
	if got := p.sequences(); !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("handed out %v, want each once", got)
	}
	// The one that is still held is heartbeated, which hurts nobody, and settled when its work is done.
	p.beats(3)
	ms[4].Ack()
	p.ended(consumer.Acked, ms[4])
	if floor := p.info().AckFloor.Stream; floor != 7 {
		t.Errorf("ack floor at %d, want 7", floor)
	}
}

// The same where a newer message of its subject pushes one out.
func TestCase16_MessageEvictedWhileHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.js.UpdateStream(r.ctx(), jetstream.StreamConfig{
		Name: stream, Subjects: []string{subject}, MaxMsgsPerSubject: 1,
	})
	r.check("update stream", err)
	p := r.replica(hurry, wait(300*time.Millisecond))
	r.publishOn("orders.created")
	first := p.got(1)[0]
	r.publishOn("orders.created")
	second := p.got(2)[1]
	p.beats(6)
	first.Ack()
	second.Ack()
	p.ended(consumer.Acked, first, second)
	r.settled()
}

// The right to consume is taken away and given back.
func TestL4_PermissionLostAndRegained(t *testing.T) {
	t.Parallel()
	users := func(deny ...string) func(*server.Options) {
		return func(o *server.Options) {
			o.NoAuthUser = "admin"
			o.Users = []*server.User{
				{Username: "admin", Password: "admin"},
				{Username: "app", Password: "app", Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: deny},
				}},
			}
		}
	}
	for name, deny := range map[string]string{
		"everything": "$JS.API.>", "pulls": "$JS.API.CONSUMER.MSG.NEXT.>", "acks": "$JS.ACK.>",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, natstest.WithConfig(users()))
			p := r.replica(hurry, wait(500*time.Millisecond), ack,
				before(func(c *consumer.Consumer) { consumer.SetLookUp(c, 300*time.Millisecond) }),
				func(s *setup) { s.conn = append(s.conn, nats.UserInfo("app", "app")) })
			r.publish(1, 1)
			p.got(1)
			r.settled()
			r.srv.Reconfigure(users(deny))
			r.publish(2, 3)
			if name == "acks" {
				p.got(3)
				natstest.Until(t, "acks are repeated", natstest.Patience, func() bool { return p.c.Status().Counts.Resent > 3 })
			}
			natstest.Until(t, "it says so", natstest.Patience, func() bool {
				var denied *consumer.DeniedError
				return errors.As(p.c.Healthy(), &denied) && len(p.log.containing("ERROR", "denies permission", denied.Subject)) > 0
			})
			r.srv.Reconfigure(users())
			p.got(3)
			r.settled()
			p.healthy()
			if got := p.sequences(); !slices.Equal(got, []uint64{1, 2, 3}) {
				t.Errorf("handed out %v, want 1 2 3", got)
			}
		})
	}
}

// L4: the permission to listen for answers is lost, and the server, which leaves the connection as it is when its
// user's permissions change, drops what it listens to. That is named; and once the permission is back everything
// goes on.
func TestL4_AnswersLostAndRegained(t *testing.T) {
	t.Parallel()
	users := func(deny ...string) func(*server.Options) {
		return func(o *server.Options) {
			o.NoAuthUser = "admin"
			o.Users = []*server.User{
				{Username: "admin", Password: "admin"},
				{Username: "app", Password: "app", Permissions: &server.Permissions{
					Subscribe: &server.SubjectPermission{Allow: []string{">"}, Deny: deny},
				}},
			}
		}
	}
	r := newRig(t, natstest.WithConfig(users()))
	p := r.replica(hurry, wait(500*time.Millisecond),
		before(func(c *consumer.Consumer) { consumer.SetLookUp(c, 300*time.Millisecond) }),
		func(s *setup) { s.conn = append(s.conn, nats.UserInfo("app", "app")) })
	r.publish(1, 1)
	held := p.got(1)[0]
	r.srv.Reconfigure(users("_INBOX.>"))
	r.publish(2, 3)
	held.Ack()
	natstest.Until(t, "it says so", natstest.Patience, func() bool {
		var denied *consumer.DeniedError
		return errors.As(p.c.Healthy(), &denied) && denied.Verb == "subscribe"
	})
	r.srv.Reconfigure(users())
	for _, m := range p.got(3)[1:] {
		m.Ack()
	}
	r.settled()
	p.healthy()
	p.ended(consumer.Acked, p.all()...)
}

// Nothing is left behind for a connection that is closed for good.
func TestConnectionClosedForGood(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica()
	p.publish(1, 1)
	m := p.got(1)[0]
	p.conn.Close()
	natstest.Until(t, "it says so", natstest.Patience, func() bool {
		return errors.Is(p.c.Healthy(), nats.ErrConnectionClosed)
	})
	m.Ack()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	names(t, p.c.Close(ctx), "1 verdicts")
	p.ended(consumer.Unconfirmed, m)
}

func number(m *consumer.Message) int {
	n, err := strconv.Atoi(string(m.Data()))
	if err != nil {
		panic(fmt.Sprintf("payload %q", m.Data()))
	}
	return n
}

// nats-io/nats.go#1972: the server deletes a durable that it takes for inactive, because the connection stalls without
// breaking. Nothing says so when it goes on.
func TestL4_DeletedForInactivityWhileTheConnectionStalls(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(hurry, with(func(cfg *consumer.Config) { cfg.InactiveThreshold = 500 * time.Millisecond }))
	p.publish(1, 2)
	for _, m := range p.got(2) {
		m.Ack()
	}
	p.settled()
	p.proxy.Stall(natstest.ClientToServer)
	p.proxy.Stall(natstest.ServerToClient)
	natstest.Eventually(t, "the durable is gone", natstest.Patience, func() error {
		if _, err := p.js.Consumer(p.ctx(), stream, durable); !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	p.publish(3, 4)
	p.proxy.Resume(natstest.ClientToServer)
	p.proxy.Resume(natstest.ServerToClient)
	for _, m := range p.got(4)[2:] {
		m.Ack()
	}
	p.settled()
	if got := p.sequences(); !slices.Equal(got, []uint64{1, 2, 3, 4}) {
		t.Errorf("handed out %v", got)
	}
	p.healthy()
}
