package jsource

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler/nats"
	"github.com/levelstream/jsource/tracing"
)

const (
	// A message that cannot be decoded is given back undecodableTries times, with a delay: during a
	// roll-out the other version may know it.
	undecodableTries = 2
)

// delays are for how long messages are given back, give or take a fifth.
type delays struct {
	undecodable time.Duration // one that cannot be decoded
	mapFirst    time.Duration // one whose mapper failed; twice that with each further hand-out,
	mapMost     time.Duration // up to this
	lost        time.Duration // one that the engine did not work on
}

var defaultDelays = delays{
	undecodable: 5 * time.Second,
	mapFirst:    100 * time.Millisecond,
	mapMost:     5 * time.Minute,
	lost:        5 * time.Second,
}

// delivery is one message on its way through the controller: what the queue.Tracker reports on.
type delivery[K comparable, T any, request comparable] struct {
	queue.Entry[request]
	run  *run[K, T, request]
	msg  *consumer.Message
	span trace.Span // nil: no tracing

	// Under burials.mu:
	past   *past // nil as long as nothing is to be said
	owed   int32 // requests it was mapped to
	buried bool  // all of it is to become a dead letter
	died   bool  // a request of it is to become one
	stuck  bool  // its dead letter could not be stored when that was last tried

	kind uint8 // of its event: 1 + the place in allKinds; 0: its subject is none of the topic's
}

// past is what few deliveries have behind them: many may be held.
type past struct {
	err        error    // what went wrong, for the span
	superseded []uint64 // sequences of messages it superseded, the last maxNamed of them
	replaced   int      // how many they are
}

// history is d's past, to be added to. The caller holds burials.mu.
func (d *delivery[K, T, request]) history() *past {
	if d.past == nil {
		d.past = new(past)
	}
	return d.past
}

// subject is what the event was published to, "" if that is none of the topic's.
func (d *delivery[K, T, request]) subject() string {
	if d.kind == 0 {
		return ""
	}
	return d.run.src.topic.SubjectOf(allKinds[d.kind-1])
}

// Handle implements [consumer.Handler]: it maps one message to requests, registers what it owes and pushes
// them.
func (r *run[K, T, request]) Handle(m *consumer.Message) {
	d := &delivery[K, T, request]{run: r, msg: m, kind: r.kinds[m.Subject()]}
	ctx := r.ctx
	if tracing.Enabled() {
		ctx, _ = tracing.StartProcess(ctx, m.Header(), r.traced(m))
		// Also when nothing is recorded: attempts go on in the publisher's trace.
		d.span = trace.SpanFromContext(ctx)
	}
	if !m.Own(d) {
		tracing.EndProcess(d.span, tracing.Forgotten, 0, nil)
		return
	}
	if n := m.Deliveries(); n > uint64(r.maxDeliveries()) {
		r.burials.add(burial[K, T, request]{
			delivery: d, reason: ReasonDeliveries,
			err: fmt.Errorf("handed out %d times, more than MaxDeliveries %d", n, r.maxDeliveries()),
		})
		return
	}
	event, err := r.src.topic.Decode(m.Subject(), m.Data())
	if err != nil {
		r.undecodable(d, err)
		return
	}
	reqs, err := r.mapEvent(ctx, event)
	if err != nil {
		r.unmappable(d, err)
		return
	}
	if len(reqs) == 0 {
		m.Ack()
		return
	}
	d.owes(len(reqs))
	m.Drop()
	if !r.group.Register(&d.Entry, d, reqs) {
		return // the stop gives it back
	}
	for _, req := range reqs {
		select {
		case r.out <- req:
		case <-r.ctx.Done():
			return
		}
	}
}

// mapEvent filters and maps one event. A panic of the user's functions becomes an error.
func (r *run[K, T, request]) mapEvent(ctx context.Context, event nats.Event[K, T]) (reqs []request, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if !r.src.filters.Pass(event) {
		return nil, nil
	}
	return r.src.mapper(ctx, event)
}

// undecodable gives a message back that cannot be decoded, or makes it a dead letter.
func (r *run[K, T, request]) undecodable(d *delivery[K, T, request], err error) {
	n := d.msg.Deliveries()
	if n > undecodableTries {
		r.burials.add(burial[K, T, request]{delivery: d, reason: ReasonUndecodable, err: err})
		return
	}
	r.log.Warn("a message cannot be decoded: given back, since another version may know it", "sequence", d.msg.Sequence(),
		"subject", d.msg.Subject(), "delivery", n, "tries", undecodableTries, "error", err)
	d.failed(err)
	d.msg.GiveBack(jitter(r.src.options.delays.undecodable))
}

// unmappable gives a message back whose mapper or filter failed.
func (r *run[K, T, request]) unmappable(d *delivery[K, T, request], err error) {
	d.failed(err)
	if r.ctx.Err() != nil {
		// It failed because of the stop, most likely. That gives it back, once we do not pull any more:
		// now it would come right back.
		return
	}
	n := d.msg.Deliveries()
	o := &r.src.options.delays
	delay := jitter(min(o.mapFirst<<min(n-1, 16), o.mapMost))
	r.log.Error("mapping an event failed: given back", "sequence", d.msg.Sequence(), "subject", d.msg.Subject(),
		"delivery", n, "again in", delay, "error", err)
	d.msg.GiveBack(delay)
}

// jitter returns d, give or take a fifth, so that messages that failed together do not come back together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

func (r *run[K, T, request]) maxDeliveries() int {
	if n := r.src.options.maxDeliveries; n > 0 {
		return n
	}
	return DefaultMaxDeliveries
}

// traced is what the span of a message says of it.
func (r *run[K, T, request]) traced(m *consumer.Message) tracing.Message {
	return tracing.Message{
		Topic:      r.src.topic.Prefix(),
		Subject:    m.Subject(),
		Stream:     r.consumer.Stream(),
		Sequence:   m.Sequence(),
		Stored:     m.Stored(),
		Delivery:   m.Deliveries(),
		Size:       len(m.Data()),
		Durable:    r.durable,
		Controller: r.controller,
	}
}

// owes notes how many requests the message was mapped to, for the span.
func (d *delivery[K, T, request]) owes(n int) {
	d.run.burials.mu.Lock()
	d.owed = int32(min(n, math.MaxInt32))
	d.run.burials.mu.Unlock()
}

// failed notes what went wrong, for the span.
func (d *delivery[K, T, request]) failed(err error) {
	d.run.burials.mu.Lock()
	d.history().err = err
	d.run.burials.mu.Unlock()
}

// Span implements [tracing.Covered].
func (d *delivery[K, T, request]) Span() trace.Span { return d.span }

// Settled implements [queue.Message]: nothing is owed any more.
func (d *delivery[K, T, request]) Settled(buried bool) {
	if buried {
		d.msg.Term()
		return
	}
	took := time.Since(d.msg.Stored())
	d.run.watch.reconciled(took)
	d.run.metrics.Reconciled(d.span, took)
	d.msg.Ack()
}

// maxNamed bounds how many superseded messages a dead letter names.
const maxNamed = 100

// Superseded implements [queue.Message]: newer messages owe all that this one still owed.
func (d *delivery[K, T, request]) Superseded(by queue.Message[request]) {
	if n, ok := by.(*delivery[K, T, request]); ok {
		n.inherit(d)
	}
	b := d.run.burials
	b.mu.Lock()
	died := d.died
	b.mu.Unlock()
	if died {
		d.msg.Term() // newer messages owe the rest of it
		return
	}
	d.msg.Ack()
}

// Died implements [queue.Message]: one request became a dead letter.
func (d *delivery[K, T, request]) Died(req request, death queue.Death) {
	reason := ReasonAttempts
	if death.Terminal {
		reason = ReasonTerminal
	}
	b := d.run.burials
	b.mu.Lock()
	d.died = true
	b.mu.Unlock()
	b.add(burial[K, T, request]{
		delivery: d, req: &req, reason: reason, err: death.Err, attempts: death.Attempts,
	})
}

// Ended implements [consumer.Handler].
func (r *run[K, T, request]) Ended(m *consumer.Message, how consumer.Ending) {
	d, ok := m.Owner().(*delivery[K, T, request])
	if !ok {
		return // it was never handled
	}
	switch how {
	case consumer.GivenBack, consumer.Released, consumer.Forgotten:
		d.Forget()
	}
	if d.span != nil {
		settlement := how.String()
		if how == consumer.Released {
			settlement = tracing.GivenBack
		}
		r.burials.mu.Lock()
		owed := int(d.owed)
		var err error
		if d.past != nil {
			err = d.past.err
		}
		r.burials.mu.Unlock()
		tracing.EndProcess(d.span, settlement, owed, err)
	}
}

// Recovered implements [consumer.Handler].
func (r *run[K, T, request]) Recovered(reason string) {
	if r.handle != nil {
		r.handle.RequestResync(fmt.Sprintf("durable %q recovered: %s", r.durable, reason))
	}
}
