//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/history"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler/nats"
)

// publishers is how many goroutines publish; each has keys of its own, so that the changes of one key are
// published in order.
const publishers = 8

// load commits changes to the table and publishes them.
type load struct {
	pub     *jsource.Publisher
	conn    *natsgo.Conn
	table   *table
	rec     *history.Recorder
	rate    float64 // events a second
	garbage int     // of ten thousand events
	js      jetstream.JetStream
	direct  *natsgo.Conn // past all wires
	calls   atomic.Uint64
	changes atomic.Uint64
	running sync.WaitGroup
	stop    context.CancelFunc

	mu sync.Mutex // of the groups' slots
}

// start publishes until halt.
func (l *load) start(seed uint64, keys int) {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	for i := range publishers {
		random := rand.New(rand.NewPCG(seed, uint64(i)+1<<32))
		l.running.Go(func() { l.publish(ctx, random, i, keys) })
	}
}

// halt ends the load and waits for the calls under way. It may be called more than once.
func (l *load) halt() {
	l.stop()
	l.running.Wait()
}

// publish publishes changes of every publishers-th key from first on. Half of them are of two hot keys,
// whose reconciles are often running when the next event comes.
func (l *load) publish(ctx context.Context, random *rand.Rand, first, keys int) {
	mine := (keys - first + publishers - 1) / publishers
	next := time.Now()
	for {
		next = next.Add(time.Duration(random.ExpFloat64() * float64(time.Second) * publishers / l.rate))
		if behind := time.Since(next); behind > time.Second {
			next = next.Add(behind) // after an outage the load is what it was, no burst
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(next)):
		}
		at := random.IntN(mine)
		if random.IntN(2) == 0 {
			at = random.IntN(min(2, mine))
		}
		if random.IntN(10000) < l.garbage {
			l.callGarbage()
			continue
		}
		key := first + at*publishers
		change := l.changes.Add(1)
		l.commit(key, change)
		kind := nats.Updated
		switch random.IntN(10) {
		case 0:
			kind = nats.Created
		case 1:
			kind = nats.Deleted
		}
		r, call := l.call(key, change, kind)
		if random.IntN(50) == 0 && r.Sequence > 0 {
			l.running.Go(func() { l.wait(ctx, call, r) })
		}
		for random.IntN(20) == 0 {
			l.call(key, change, kind) // the same again
		}
	}
}

// commit makes the change the newest of everything that its event will owe.
func (l *load) commit(key int, change uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, req := range append(owes(key, change), keyName(key)) {
		slot, err := l.table.slot(req)
		if err != nil {
			panic(err)
		}
		if l.table.load(slot) < change {
			l.table.store(slot, change)
		}
	}
}

// callHeader holds the call that published what cannot be decoded.
const callHeader = "Chaos-Call"

// callGarbage publishes what nobody can decode.
func (l *load) callGarbage() {
	p := history.Publish{Call: l.calls.Add(1), Change: l.changes.Add(1), Garbage: true}
	msg := natsgo.NewMsg(topic.SubjectOf(nats.Updated))
	msg.Header.Set(callHeader, fmt.Sprint(p.Call))
	msg.Data = []byte("garbage")
	ctx, cancel := context.WithTimeout(context.Background(), publishPatience)
	defer cancel()
	p.Begin = now()
	ack, err := l.js.PublishMsg(ctx, msg, jetstream.WithMsgID(fmt.Sprintf("change-%d", p.Change)))
	p.End = now()
	if err != nil {
		p.Err = err.Error()
	} else {
		p.Confirmed, p.Seq, p.Duplicate = true, ack.Sequence, ack.Duplicate
	}
	l.rec.Published(p)
}

// wait waits until an event is reconciled, or the load ends, and records what it was told.
func (l *load) wait(ctx context.Context, call uint64, r jsource.Receipt) {
	w := history.Wait{Call: call}
	ctx, cancel := context.WithTimeout(ctx, publishPatience)
	defer cancel()
	w.Begin = now()
	err := jsource.WaitReconciled(ctx, l.direct, durableName, r)
	w.End = now()
	var dead *jsource.DeadLetterError
	switch {
	case err == nil:
		w.Done = true
	case errors.As(err, &dead):
		w.Dead = true
	default:
		w.Err = err.Error()
	}
	l.rec.Change(func(h *history.History) { h.Waits = append(h.Waits, w) })
}

// call publishes one event and records how it went. It is not cut short by the end of the load.
func (l *load) call(key int, change uint64, kind nats.EventKind) (jsource.Receipt, uint64) {
	p := history.Publish{Call: l.calls.Add(1), Change: change, Key: keyName(key)}
	is := item{Change: change, Call: p.Call, Skip: skips(change)}
	if !is.Skip {
		p.Owes = owes(key, change)
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishPatience)
	defer cancel()
	id := jsource.MsgID(fmt.Sprintf("change-%d", change))
	var (
		r   jsource.Receipt
		err error
	)
	p.Begin = now()
	switch kind {
	case nats.Created:
		r, err = jsource.PublishCreated(ctx, l.pub, topic, p.Key, is, id)
	case nats.Deleted:
		r, err = jsource.PublishDeleted(ctx, l.pub, topic, p.Key, is, id)
	default:
		r, err = jsource.PublishUpdated(ctx, l.pub, topic, p.Key, item{}, is, id)
	}
	p.End = now()
	if err == nil && r.Stream != streamName {
		err = errors.New("stored in stream " + r.Stream)
	}
	if err != nil {
		p.Err = err.Error()
	} else {
		p.Confirmed, p.Seq, p.Duplicate = true, r.Sequence, r.Duplicate
	}
	l.rec.Published(p)
	return r, p.Call
}

// publishPatience is how long one call tries.
const publishPatience = 15 * time.Second
