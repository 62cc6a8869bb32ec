package consumer_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// Heartbeats come every third of the AckWait that the server reports, not of the one that is asked for,
// begin at receipt and stop at the verdict.
func TestL1_HeartbeatsEveryThirdOfTheServersAckWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const is = 600 * time.Millisecond
	_, err := r.js.CreateConsumer(r.ctx(), stream, jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: is, FilterSubject: subject,
	})
	r.check("create consumer", err)
	p := r.replica(bind, wait(time.Hour))
	r.publish(1, 1)
	m := p.got(1)[0]
	handed := time.Now()
	p.beats(8)
	seen := p.wire.Of(1)
	if late := seen[0].At.Sub(handed); late > is/2 {
		t.Errorf("the first heartbeat came after %v", late)
	}
	const gaps = 7
	if every := seen[gaps].At.Sub(seen[0].At) / gaps; every < is/4 || every > is/2 {
		t.Errorf("a heartbeat every %v, want %v", every, is/3)
	}
	if n := m.Deliveries(); n != 1 {
		t.Errorf("delivery %d, want 1", n)
	}
}

// No heartbeat follows a verdict, not even one that comes in the middle of a round, before the message's turn.
func TestL1_NoHeartbeatAfterTheVerdict(t *testing.T) {
	t.Parallel()
	const n = 600 // more than two chunks
	var (
		mu      sync.Mutex
		turn    = map[string]bool{} // the messages that had their turn in this round
		started = make(chan struct{}, 1)
	)
	p := newRig(t).replica(wait(time.Hour), before(func(c *consumer.Consumer) {
		consumer.Intercept(c, func(subject string, data []byte) error {
			if string(data) != "+WPI" {
				return nil
			}
			mu.Lock()
			turn[subject] = true
			mu.Unlock()
			time.Sleep(20 * time.Microsecond) // a slow round: others wait for their chance between two chunks
			select {
			case started <- struct{}{}:
			default:
			}
			return nil
		})
	}))
	p.publish(1, n)
	ms := p.got(n)
	hadTurn := func(m *consumer.Message) bool {
		seq := m.Sequence()
		prefix := fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.", stream, durable, seq, seq, m.Stored().UnixNano())
		mu.Lock()
		defer mu.Unlock()
		for subject := range turn {
			if strings.HasPrefix(subject, prefix) {
				return true
			}
		}
		return false
	}
	early := 0                                                        // acked in the middle of a round, before their turn
	for round := 0; round < 3 || early == 0 && round < 100; round++ { // a busy machine may not let us in at once
		clear(turn)
		done := make(chan struct{})
		go func() {
			defer close(done)
			consumer.Beat(p.c)
		}()
		<-started
		for _, m := range ms {
			select {
			case <-done:
			default:
				if !hadTurn(m) && m.Ack() && !hadTurn(m) {
					early++
				}
			}
		}
		<-done
		for len(started) > 0 {
			<-started
		}
	}
	if early == 0 {
		t.Error("no verdict came in the middle of a round")
	}
	for _, m := range ms {
		m.Ack()
	}
	p.ended(consumer.Acked, ms...)
	after := map[uint64]bool{}
	for _, s := range p.wire.All() {
		if after[s.StreamSeq] && !s.Verdict() {
			t.Fatalf("%s follows the verdict", s)
		}
		after[s.StreamSeq] = after[s.StreamSeq] || s.Verdict()
	}
}

// The loop does not end with a heartbeat that fails, and failed rounds are made up for in time.
func TestCase14_TwoOfThreeHeartbeatsFail(t *testing.T) {
	t.Parallel()
	var tried, sent atomic.Int32
	p := newRig(t).replica(wait(2*time.Second), before(func(c *consumer.Consumer) {
		consumer.Intercept(c, func(_ string, data []byte) error {
			if string(data) == "+WPI" {
				if tried.Add(1)%3 != 0 {
					return errors.New("not this one")
				}
				sent.Add(1)
			}
			return nil
		})
	}))
	p.publish(1, 1)
	m := p.got(1)[0]
	p.beats(8) // at least 8/3 AckWaits
	if n := m.Deliveries(); n != 1 {
		t.Errorf("delivery %d, want 1", n)
	}
	if n := p.info().NumRedelivered; n != 0 {
		t.Errorf("%d redelivered", n)
	}
	if tried.Load() < 3*sent.Load() {
		t.Errorf("%d of %d heartbeats failed, want two of three", tried.Load()-sent.Load(), tried.Load())
	}
	m.Ack()
	p.settled()
}

// Messages that wait because Handle is busy have heartbeats too.
func TestCase7_PrefetchedMessagesAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(1, 10)
	p := r.replica(wait(time.Second), work(func(m *consumer.Message) {
		<-time.After(400 * time.Millisecond) // the work
		m.Ack()
	}))
	ms := p.got(10)
	p.ended(consumer.Acked, ms...)
	r.settled()
	for _, m := range ms {
		if m.Deliveries() != 1 {
			t.Errorf("message %d was handed out %d times", m.Sequence(), m.Deliveries())
		}
	}
	if s := r.info(); s.Delivered.Consumer != 10 {
		t.Errorf("%d handed out, want 10", s.Delivered.Consumer)
	}
}

// A hung handler does not keep its message for ever.
func TestCase14_ReleasedAtTheHoldLimit(t *testing.T) {
	t.Parallel()
	const limit = 500 * time.Millisecond
	p := newRig(t).replica(wait(300*time.Millisecond), with(func(cfg *consumer.Config) { cfg.HoldLimit = limit }),
		work(func(m *consumer.Message) {
			if m.Deliveries() > 1 && !m.Ack() {
				t.Error("the second delivery cannot be acked")
			}
		}))
	p.publish(1, 1)
	began := time.Now()
	m := p.got(1)[0]
	p.got(2)
	if took := time.Since(began); took < limit {
		t.Errorf("released after %v, want %v", took, limit)
	}
	p.ended(consumer.Released, m)
	if m.Ack() {
		t.Error("it could be acked after it was released")
	}
	p.settled()
	if nak := p.wire.Of(1); !strings.HasPrefix(naks(nak), "-NAK") {
		t.Errorf("it was not given back: %v", nak)
	}
}

func naks(seen []natstest.Settlement) string {
	for _, s := range seen {
		if s.Kind == natstest.Nak {
			return s.Payload
		}
	}
	return ""
}

// Hundreds of messages need no more goroutines than one.
func TestL1_OneGoroutine(t *testing.T) { // not parallel: it counts goroutines
	p := newRig(t).replica(wait(time.Second), most(2000))
	p.publish(1, 1)
	p.got(1)
	p.beats(1)
	before := runtime.NumGoroutine()
	p.publish(2, 501)
	p.got(501)
	p.beats(1002)
	natstest.Until(t, "no more goroutines than with one message", natstest.Patience, func() bool {
		return runtime.NumGoroutine() <= before
	})
}

// A round of heartbeats is confirmed by its last; those of one connection arrive in order.
func TestL1_OneConfirmedHeartbeatARound(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(wait(3*time.Second), most(1000))
	const n = 600 // more than two chunks
	p.publish(1, n)
	p.got(n)
	p.beats(2 * n)
	confirmed := 0
	for _, s := range p.wire.All()[n : 2*n] {
		if s.Reply != "" {
			confirmed++
		}
	}
	if confirmed < 1 || confirmed > 2 {
		t.Errorf("%d of %d heartbeats ask for an answer, want one a round", confirmed, n)
	}
}

// AckWait is shortened by another replica: heartbeats follow.
func TestL1_HeartbeatsFollowAChangeOfAckWait(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(hurry, wait(30*time.Second))
	p.publish(1, 1)
	m := p.got(1)[0]
	cfg := p.info().Config
	cfg.AckWait = 300 * time.Millisecond
	_, err := p.js.UpdateConsumer(p.ctx(), stream, cfg)
	p.check("update", err)
	natstest.Until(t, "it has noticed", natstest.Patience, func() bool { return p.c.AckWait() == cfg.AckWait })
	p.beats(1)          // the copy that the change may have caused came before it
	n := m.Deliveries() // which may have been one too many
	p.beats(12)
	if got := m.Deliveries(); got != n {
		t.Errorf("delivery %d, want %d", got, n)
	}
}
