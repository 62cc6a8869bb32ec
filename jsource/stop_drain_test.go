package jsource_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
)

// channelEngine is an engine that is not this module's: it hands its source a channel, queues what comes out
// of it, and runs a function on it in goroutines of its own. A panic it recovers outside of that function.
type channelEngine struct {
	ledger
	source *widgetSource
	ctx    context.Context
	cancel context.CancelFunc
	queue  workqueue.TypedRateLimitingInterface[string]
	busy   sync.WaitGroup

	insistent bool // it tries again at once, without queue or backoff

	attempts       context.Context // what attempts get: not the source's
	cancelAttempts context.CancelFunc
}

// engine starts one with the source tracked and the function wrapped, and stops it at cleanup.
func (w *world) engine(workers int, do reconciler.Func[string], held ...string) *channelEngine {
	w.tb.Helper()
	e := &channelEngine{queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, time.Second),
	)}
	e.do = do
	e.hold(held...)
	tracker := queue.NewTracker[string]()
	reconcile := queue.Wrap(tracker, e.Reconcile)
	e.source = jsource.Subject(w.srv.Conn(), widgets).Track(tracker).Durable(widgetDurable)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.attempts, e.cancelAttempts = context.WithCancel(context.Background())

	out := make(chan string)
	e.busy.Go(func() {
		for {
			select {
			case key := <-out:
				e.queue.Add(key)
			case <-e.ctx.Done():
				return
			}
		}
	})
	for range workers {
		e.busy.Go(func() {
			for e.next(reconcile) {
			}
		})
	}
	w.tb.Cleanup(func() {
		e.stop()
		e.cancelAttempts()
		e.busy.Wait()
		e.drain(w.tb, natstest.Patience)
	})
	if err := e.source.Start(e.ctx, out); err != nil {
		w.tb.Fatal(err)
	}
	return e
}

// next works on one request.
func (e *channelEngine) next(reconcile reconciler.Func[string]) (more bool) {
	key, shutdown := e.queue.Get()
	if shutdown {
		return false
	}
	defer e.queue.Done(key)
	defer func() {
		if recover() != nil {
			e.queue.AddRateLimited(key)
			more = true
		}
	}()
	_, err := reconcile(e.attempts, key)
	for err != nil && e.insistent {
		_, err = reconcile(e.attempts, key)
	}
	if err != nil {
		e.queue.AddRateLimited(key)
		return true
	}
	e.queue.Forget(key)
	return true
}

// stop ends the source and takes in nothing more. As such engines do, it still works on what is queued.
func (e *channelEngine) stop() {
	e.cancel()
	e.queue.ShutDown()
}

// drain drains the source, with so much time for attempts that run.
func (e *channelEngine) drain(tb testing.TB, grace time.Duration) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := e.source.Drain(ctx); err != nil {
		tb.Errorf("Drain: %v", err)
	}
}

// T1 for another engine: what is buffered goes to another replica within a second, what runs is acked by the
// one that runs it, and when Drain returns the server has confirmed that. The engine goes on with what it had
// queued; those attempts began after the stop and count for nothing.
func TestDrainGivesBackWhatIsBuffered(t *testing.T) {
	w := newWorld(t)
	buffered := numbered("buffered", 50)
	e := w.engine(1, nil, append(buffered, "busy")...)
	busy := w.publish("busy")[0]
	e.waitBegun(t, "busy")
	receipts := w.publish(buffered...)
	waitHeld(t, e.source, 51)
	natstest.Until(t, "all are queued", natstest.Patience, func() bool { return e.queue.Len() == 50 })
	b := w.join(withSource(func(s *widgetSource) { s.Durable(widgetDurable) }), holding(buffered...))

	e.stop()
	stop := time.Now()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		e.drain(t, natstest.Patience)
	}()
	natstest.Until(t, "the other replica begins", natstest.Patience, func() bool { return len(b.all()) > 0 })
	if late := b.all()[0].began.Sub(stop); late > soon {
		t.Errorf("the other replica began %v after the stop, want at most %v", late, soon)
	}
	natstest.Until(t, "all were given back and handed out again", natstest.Patience, func() bool {
		w.witness.Sync(t)
		return w.witness.Count(natstest.Nak) == 50 && w.info().NumAckPending == 51
	})
	e.release("busy")
	<-drained
	if info := w.info(); info.NumAckPending != 50 || info.AckFloor.Stream != busy.Sequence {
		t.Errorf("when Drain returned %d messages were unsettled and the ack floor was %d; want 50, %d",
			info.NumAckPending, info.AckFloor.Stream, busy.Sequence)
	}
	w.expectSaid(busy.Sequence, "ack of delivery 1")

	// Now the engine works off its queue, on what the other replica has.
	e.release(buffered...)
	e.waitDone(t, buffered...)
	for _, r := range receipts {
		w.expectSaid(r.Sequence, "nak of delivery 1")
	}
	b.release(buffered...)
	w.settled()
	for _, r := range receipts {
		w.expectSaid(r.Sequence, "nak of delivery 1, ack of delivery 2")
	}
}

// T1 for another engine: attempts that begin while Drain waits for others count for nothing. Here each fails
// after the stop, and the engine tries again so fast that the messages are still held; that succeeds.
func TestDrainIgnoresAttemptsThatBeginLater(t *testing.T) {
	w := newWorld(t)
	keys := numbered("key", 20)
	var failed sync.Map
	e := w.engine(len(keys), func(_ context.Context, key string) (res reconciler.Result, err error) {
		if _, again := failed.LoadOrStore(key, true); !again {
			err = errors.New("the first time")
		}
		return res, err
	}, keys...)
	e.insistent = true
	receipts := w.publish(keys...)
	e.waitBegun(t, keys...)

	e.cancel()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		e.drain(t, natstest.Patience)
	}()
	natstest.Until(t, "the stop has begun", natstest.Patience, func() bool { return e.source.Healthy() != nil })
	e.release(keys...)
	e.waitDone(t, keys...)
	<-drained
	for _, r := range receipts {
		w.expectSaid(r.Sequence, "nak of delivery 1")
	}
}

// T1 for another engine: nor does Drain wait for attempts that begin later: what they work on is another
// replica's, within a second.
func TestDrainWaitsForNoAttemptThatBeginsLater(t *testing.T) {
	w := newWorld(t)
	again := make(chan struct{})
	defer close(again)
	var attempts atomic.Int32
	e := w.engine(1, func(ctx context.Context, key string) (res reconciler.Result, err error) {
		if attempts.Add(1) == 1 {
			return res, errors.New("the first time")
		}
		return waitFor(again)(ctx, key)
	}, "key")
	e.insistent = true
	r := w.publish("key")[0]
	e.waitBegun(t, "key")
	b := w.join(withSource(func(s *widgetSource) { s.Durable(widgetDurable) }))
	stop := time.Now()
	e.cancel()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		e.drain(t, natstest.Patience)
	}()
	natstest.Until(t, "the stop has begun", natstest.Patience, func() bool { return e.source.Healthy() != nil })
	e.release("key")
	<-drained
	b.waitDone(t, "key")
	if late := b.all()[0].began.Sub(stop); late > soon {
		t.Errorf("the other replica began %v after the stop, want at most %v", late, soon)
	}
	w.settled()
	w.expectSaid(r.Sequence, "nak of delivery 1, ack of delivery 2")
}

// T1 for another engine: an attempt that outlasts Drain's context is given back when that ends, also if the
// source's own context ended before and its stop has begun without Drain.
func TestDrainGivesBackWhatOutlastsItsContext(t *testing.T) {
	w := newWorld(t)
	late := make(chan struct{})
	e := w.engine(1, waitFor(late))
	slow := w.publish("slow")[0]
	e.waitBegun(t, "slow")
	e.stop()
	natstest.Until(t, "the stop has begun", natstest.Patience, func() bool { return e.source.Healthy() != nil })
	began := time.Now()
	e.drain(t, 100*time.Millisecond)
	if d := time.Since(began); d > 100*time.Millisecond+soon {
		t.Errorf("Drain took %v", d)
	}
	w.expectSaid(slow.Sequence, "nak of delivery 1")
	close(late)
	e.busy.Wait()
	w.expectSaid(slow.Sequence, "nak of delivery 1")
}

// A source of another engine stops by itself when its context has ended and nobody calls Drain.
func TestSourceStopsWithItsContext(t *testing.T) {
	w := newWorld(t)
	e := w.engine(1, nil, "busy")
	busy := w.publish("busy")[0]
	e.waitBegun(t, "busy")
	waiting := w.publish("waiting")[0]
	waitHeld(t, e.source, 2)
	e.cancel()
	w.witness.WaitFor(t, "what waits is given back", func(all []natstest.Settlement) bool {
		return len(all) > 0 && all[len(all)-1].Kind == natstest.Nak
	})
	e.release("busy")
	w.witness.WaitFor(t, "what runs is acked", func(all []natstest.Settlement) bool {
		return all[len(all)-1].Kind == natstest.Ack
	})
	w.expectSaid(busy.Sequence, "ack of delivery 1")
	w.expectSaid(waiting.Sequence, "nak of delivery 1")
}

// A panic that the engine recovers outside of the wrapped function is a failed attempt: nothing is settled by
// it, and the next one that succeeds does.
func TestEngineRecoversAPanicOutside(t *testing.T) {
	w := newWorld(t)
	var once sync.Once
	e := w.engine(1, func(context.Context, string) (res reconciler.Result, err error) {
		once.Do(func() {
			if got := w.said(1); got != "" {
				t.Errorf("before the first attempt ended the witness saw %q", got)
			}
			panic("once")
		})
		if got := w.said(1); got != "" {
			err = errors.New("settled by an attempt that panicked: " + got)
			t.Error(err)
		}
		return res, err
	})
	r := w.publish("fragile")[0]
	e.waitDone(t, "fragile")
	w.settled()
	w.expectSaid(r.Sequence, "ack of delivery 1")
	if n := e.begun()["fragile"]; n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}
}
