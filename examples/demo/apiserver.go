package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/jsource"
)

const (
	// commitEvery is how often the API server commits: what became due in between, in one transaction.
	commitEvery = 20 * time.Millisecond
	// publishers is how many events are published at once; those of one Stage go one after the other.
	publishers = 8
)

// apiServer commits changes of PromotionRequests to the database and publishes each one that is
// committed: to JetStream, and so also to whoever subscribes to the subject with core NATS.
type apiServer struct {
	store     *store
	publisher *jsource.Publisher
	topic     requestTopic
	ledger    *ledger
	load      *load
	rate      int // changes a second

	allowed   atomic.Int64 // how many changes it may make
	committed atomic.Int64
}

func newAPIServer(conn *natsgo.Conn, topic requestTopic, st *store, led *ledger, l *load, rate int) (
	*apiServer, error,
) {
	p, err := jsource.NewPublisher(conn)
	if err != nil {
		return nil, err
	}
	return &apiServer{store: st, publisher: p, topic: topic, ledger: led, load: l, rate: rate}, nil
}

// run makes n changes, as fast as the rate says and as far as it is allowed to, and returns when each one
// is published.
func (a *apiServer) run(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var publishing sync.WaitGroup
	shards := make([]chan change, publishers)
	for i := range shards {
		shards[i] = make(chan change, 64)
		publishing.Go(func() {
			for c := range shards[i] {
				if err := a.publish(ctx, &c); err != nil {
					cancel(fmt.Errorf("publishing change %d: %w", c.Number, err))
				}
			}
		})
	}
	err := a.commit(ctx, n, shards)
	for _, s := range shards {
		close(s)
	}
	publishing.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// commit commits n changes and hands each to its publisher.
func (a *apiServer) commit(ctx context.Context, n int, shards []chan change) error {
	ticker := time.NewTicker(commitEvery)
	defer ticker.Stop()
	due, last := 0.0, time.Now()
	for done := 0; done < n; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		now := time.Now()
		// What could not be done in time is caught up with, but not in one burst.
		due = min(due+now.Sub(last).Seconds()*float64(a.rate), 5*commitEvery.Seconds()*float64(a.rate)+1)
		last = now
		size := min(int(due), n-done, int(a.allowed.Load())-done)
		if size <= 0 {
			continue
		}
		due -= float64(size)
		batch := make([]change, size)
		for i := range batch {
			var err error
			if batch[i], err = a.load.next(); err != nil {
				return err
			}
		}
		if err := a.store.Commit(ctx, batch); err != nil {
			return err
		}
		a.ledger.committed(batch)
		done += size
		a.committed.Store(int64(done))
		for i := range batch {
			select {
			case shards[a.ledger.stage(batch[i].row().stage())%len(shards)] <- batch[i]:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// publish publishes one change and returns when the stream has stored it.
func (a *apiServer) publish(ctx context.Context, c *change) error {
	begun := time.Now()
	a.ledger.publishing(c.Number, begun)
	// The id of the change, so that one which is published twice is stored once.
	id := jsource.MsgID(strconv.FormatInt(c.Number, 10))
	key := c.row().ID
	var err error
	switch {
	case c.Old == nil:
		_, err = jsource.PublishCreated(ctx, a.publisher, a.topic, key, *c.New, id)
	case c.New == nil:
		_, err = jsource.PublishDeleted(ctx, a.publisher, a.topic, key, *c.Old, id)
	default:
		_, err = jsource.PublishUpdated(ctx, a.publisher, a.topic, key, *c.Old, *c.New, id)
	}
	if err != nil {
		return err
	}
	a.ledger.published(c.Number, time.Now())
	return nil
}

// allow lets it go on until so many changes are made.
func (a *apiServer) allow(n int) { a.allowed.Store(int64(n)) }

// reached waits until so many changes are committed.
func (a *apiServer) reached(ctx context.Context, n int) error {
	return poll(ctx, func() bool { return a.committed.Load() >= int64(n) })
}

// poll waits until is returns true.
func poll(ctx context.Context, is func() bool) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
	return nil
}
