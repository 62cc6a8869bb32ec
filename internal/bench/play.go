package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// pollEvery is how often the run looks whether it is over, which is how exact its end is.
	pollEvery = 2 * time.Millisecond
	// quiet is how long nothing may come over core NATS once everything is published: what has not come
	// by then never will.
	quiet = time.Second
	// standstill is how long a run may make no progress before it is given up.
	standstill = 45 * time.Second
)

// play publishes, strikes and waits until everything is settled; it returns when that was.
func (r *run) play(ctx context.Context, load *load) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	published := make(chan struct{})
	go func() {
		defer close(published)
		var err error
		switch {
		case r.spec.Rate > 0:
			err = load.pace(ctx, !r.contender.Core)
		case r.contender.Core:
			err = load.flood(ctx)
		}
		if err != nil {
			cancel(err)
		}
	}()
	struck := make(chan struct{})
	go func() {
		defer close(struck)
		if err := r.strike(ctx); err != nil {
			cancel(err)
		}
	}()
	end, err := r.waitSettled(ctx, published)
	if err != nil {
		cancel(err)
	}
	<-published
	<-struck
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return end, err
}

// strike makes the fault happen when half of the events are covered.
func (r *run) strike(ctx context.Context) error {
	if r.spec.Fault == faultNone {
		return nil
	}
	for int(r.probe.done.Load()) < (r.spec.Events+1)/2 && ctx.Err() == nil {
		wait(ctx, pollEvery)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the run is over, for a reason of its own
	}
	r.faultAt = r.probe.now()
	if r.spec.Fault == faultCut {
		r.wire.cut(ctx)
		return nil
	}
	return r.servers.restart(ctx)
}

// waitSettled waits until every event is covered and the server says that it is settled. Over core NATS it
// waits for what comes.
func (r *run) waitSettled(ctx context.Context, published <-chan struct{}) (int64, error) {
	p := r.probe
	moved, before := time.Now(), [2]int64{-1, -1}
	for {
		if ctx.Err() != nil {
			return p.now(), context.Cause(ctx)
		}
		covered := p.done.Load() == int64(r.spec.Events)
		if covered && r.contender.Core {
			return p.lastCovered(), nil
		}
		if covered {
			settled, err := r.settledUpTo(ctx)
			if err == nil && settled >= uint64(r.spec.Events) {
				return p.now(), nil
			}
			if err != nil && r.spec.Fault == faultNone {
				return p.now(), err
			}
		}
		if now := [2]int64{p.done.Load(), p.received.Load()}; now != before {
			moved, before = time.Now(), now
		}
		if r.contender.Core && isClosed(published) && time.Since(moved) > quiet+10*r.longest() {
			return p.lastCovered(), nil
		}
		if r.contender.Unsafe && !r.contender.Core && time.Since(moved) > quiet+10*r.longest() {
			// It may have settled what it never worked on.
			if settled, err := r.settledUpTo(ctx); err == nil && settled >= uint64(r.spec.Events) {
				return p.lastCovered(), nil
			}
		}
		if time.Since(moved) > r.patience() {
			return p.now(), fmt.Errorf("no progress for %v, after %d of %d events", r.patience(), p.done.Load(), r.spec.Events)
		}
		wait(ctx, pollEvery)
	}
}

// longest is how long one reconcile takes, about.
func (r *run) longest() time.Duration { return max(r.work.fixed, r.work.mean) }

// patience is how long the run may stand still: what is lost on its way in a fault is handed out again after
// AckWait.
func (r *run) patience() time.Duration { return standstill + 2*r.spec.AckWait + 2*tailMost*r.longest() }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// settledUpTo asks the server up to where everything in the stream is settled. With nothing pending that is
// as many events as the stream has.
func (r *run) settledUpTo(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var durable interface {
		CachedInfo() *jetstream.ConsumerInfo
	}
	durable, err := r.js.Consumer(ctx, r.config.Name, r.durable)
	if errors.Is(err, jetstream.ErrNotPullConsumer) {
		durable, err = r.js.PushConsumer(ctx, r.config.Name, r.durable)
	}
	if err != nil {
		return 0, fmt.Errorf("asking the server for durable %q: %w", r.durable, err)
	}
	// Of a moment ago: looking it up has just asked.
	return durable.CachedInfo().AckFloor.Stream, nil
}
