package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/reconciler/nats"
)

const (
	// window is how many events may be on their way to a core-NATS consumer at once, as fast as it goes:
	// beyond its subscription's buffer they would be lost, which says nothing of its speed.
	window = 8192
	// inFlight is how many publishes may wait for the stream's answer at once, on one connection.
	inFlight = 4096
	// storeWithin bounds how long the stream may take to answer.
	storeWithin = 30 * time.Second
)

// load publishes the events of a run.
type load struct {
	spec    *Spec
	subject string
	body    *body
	probe   *Probe
	conns   []*natsgo.Conn // one for each publisher
	traced  float64        // the share of events whose trace is sampled; 0: none has a trace
}

func newLoad(s *Spec, topic Topic, p *Probe, conns []*natsgo.Conn, traced float64) (*load, error) {
	b, err := newBody(topic, s.Payload)
	if err != nil {
		return nil, err
	}
	return &load{spec: s, subject: topic.SubjectOf(nats.Updated), body: b, probe: p, conns: conns, traced: traced}, nil
}

// message is event n as the stream gets it, with the trace context that a publisher that traces gives it.
func (l *load) message(n int) *natsgo.Msg {
	msg := natsgo.NewMsg(l.subject)
	msg.Data = l.body.write(nil, n, l.spec.keyOf(n))
	if l.traced > 0 {
		flags := 0
		if every := int(1 / l.traced); n%every == 0 {
			flags = 1
		}
		msg.Header["traceparent"] = []string{fmt.Sprintf("00-%032x-%016x-%02x", n+1, n+1, flags)}
	}
	return msg
}

// store puts all events into the stream, in order: event n gets sequence n+1.
func (l *load) store(ctx context.Context, stream jetstream.Stream) error {
	js, err := pipelined(l.conns[0])
	if err != nil {
		return err
	}
	for n := range l.spec.Events {
		if _, err := js.PublishMsgAsync(l.message(n), noStall); err != nil {
			return fmt.Errorf("storing event %d: %w", n, err)
		}
		l.probe.seqs[n].Store(uint64(n + 1))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(storeWithin):
		return fmt.Errorf("the stream has not confirmed all events within %v", storeWithin)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("asking for the stream: %w", err)
	}
	if info.State.Msgs != uint64(l.spec.Events) {
		return fmt.Errorf("the stream has %d events of %d", info.State.Msgs, l.spec.Events)
	}
	return nil
}

// pipelined publishes without waiting, unless too many answers are missing: then until one has come.
func pipelined(conn *natsgo.Conn) (jetstream.JetStream, error) {
	return jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(inFlight), jetstream.WithPublishAsyncTimeout(storeWithin))
}

// noStall is for how long a publish waits for room.
var noStall = jetstream.WithStallWait(storeWithin)

// flood publishes all events over core NATS as fast as they are received.
func (l *load) flood(ctx context.Context) error {
	var (
		buf     []byte
		lost    int64 // given up: a fault has swallowed them
		moved   = time.Now()
		arrived = int64(-1)
	)
	for n := 0; n < l.spec.Events; n++ {
		for wait := time.Duration(0); int64(n)-l.probe.received.Load()-lost >= window; wait = 100 * time.Microsecond {
			if now := l.probe.received.Load(); now != arrived {
				arrived, moved = now, time.Now()
			} else if time.Since(moved) > 2*outage {
				lost = int64(n) - now
			}
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			time.Sleep(wait)
		}
		buf = l.body.write(buf, n, l.spec.keyOf(n))
		conn := l.conns[n%len(l.conns)]
		l.probe.sent[n] = l.probe.now()
		if err := conn.Publish(l.subject, buf); err != nil && !errors.Is(err, natsgo.ErrReconnectBufExceeded) {
			return fmt.Errorf("publishing event %d: %w", n, err)
		}
	}
	return l.flush()
}

func (l *load) flush() error {
	for _, conn := range l.conns {
		if err := conn.FlushTimeout(storeWithin); err != nil {
			return fmt.Errorf("waiting for the server to have all events: %w", err)
		}
	}
	return nil
}

// pace publishes each event at its time: publishers take turns.
func (l *load) pace(ctx context.Context, stored bool) error {
	begin := l.probe.now() + int64(50*time.Millisecond)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i, conn := range l.conns {
		all.Go(func() {
			var err error
			if stored {
				err = l.paceStored(ctx, conn, begin, i)
			} else {
				err = l.paceSent(ctx, conn, begin, i)
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if stored {
		return nil
	}
	return l.flush()
}

// due waits until event n is to be published.
func (l *load) due(ctx context.Context, begin int64, n int) error {
	at := begin + int64(float64(n)/l.spec.Rate*1e9)
	l.probe.intended[n] = at
	if early := at - l.probe.now(); early > 0 {
		time.Sleep(time.Duration(early))
	}
	l.probe.sent[n] = l.probe.now()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// paceSent publishes over core NATS.
func (l *load) paceSent(ctx context.Context, conn *natsgo.Conn, begin int64, first int) error {
	var buf []byte
	for n := first; n < l.spec.Events; n += len(l.conns) {
		if err := l.due(ctx, begin, n); err != nil {
			return err
		}
		buf = l.body.write(buf, n, l.spec.keyOf(n))
		// While the server is away events wait in the connection's buffer. What it cannot hold is lost.
		if err := conn.Publish(l.subject, buf); err != nil && !errors.Is(err, natsgo.ErrReconnectBufExceeded) {
			return fmt.Errorf("publishing event %d: %w", n, err)
		}
	}
	return nil
}

// sent is an event that waits for the stream's answer.
type sent struct {
	n      int
	msg    *natsgo.Msg
	future jetstream.PubAckFuture // nil: it could not even be sent
}

// paceStored publishes to the stream without waiting for its answer; those are looked at one by one behind.
func (l *load) paceStored(ctx context.Context, conn *natsgo.Conn, begin int64, first int) error {
	js, err := pipelined(conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make(chan sent, inFlight)
	var reader sync.WaitGroup
	reader.Go(func() {
		for s := range answers {
			if ctx.Err() != nil {
				continue
			}
			if err := l.confirm(ctx, js, s); err != nil {
				cancel(err)
			}
		}
	})
	for n := first; n < l.spec.Events; n += len(l.conns) {
		if err := l.due(ctx, begin, n); err != nil {
			break
		}
		msg := l.message(n)
		if l.spec.Fault != faultNone {
			// It may have to be sent twice; without faults the stream is spared the bookkeeping.
			msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprint(n))
		}
		future, err := js.PublishMsgAsync(msg, noStall)
		if err != nil {
			future = nil
		}
		answers <- sent{n, msg, future}
	}
	close(answers)
	reader.Wait()
	return context.Cause(ctx)
}

// confirm waits for the answer to one event, and publishes it again if a fault has swallowed that.
func (l *load) confirm(ctx context.Context, js jetstream.JetStream, s sent) error {
	err := errors.New("the connection could not take it")
	if s.future != nil {
		patience := storeWithin
		if l.spec.Fault != faultNone {
			patience = 2 * time.Second // answers that got lost in the fault never come
		}
		select {
		case ack := <-s.future.Ok():
			l.probe.seqs[s.n].Store(ack.Sequence)
			return nil
		case err = <-s.future.Err():
		case <-time.After(patience):
			err = errors.New("no answer")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	deadline := time.Now().Add(storeWithin)
	for l.spec.Fault != faultNone && time.Now().Before(deadline) {
		var ack *jetstream.PubAck
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		ack, err = js.PublishMsg(try, s.msg)
		cancel()
		if err == nil {
			l.probe.seqs[s.n].Store(ack.Sequence)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		wait(ctx, 50*time.Millisecond)
	}
	return fmt.Errorf("storing event %d: %w", s.n, err)
}
