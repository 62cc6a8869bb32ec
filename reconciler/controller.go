package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/metrics"
	"github.com/levelstream/jsource/queue"
)

// cancelled is how long attempts may take to return once their context was cancelled, before Start gives
// up on them and returns an error.
const cancelled = 5 * time.Second

// ahead is how many requests a source may push before they are queued: the two need not take turns.
const ahead = 64

// Controller runs a Reconciler on the requests of its sources. It is made by a [Builder] and can be
// started once.
type Controller[request comparable] struct {
	name       string
	sources    []Source[request]
	reconciler Reconciler[request]
	limiter    workqueue.TypedRateLimiter[request]
	workers    int
	timeout    time.Duration
	grace      time.Duration
	logger     *slog.Logger
	policy     queue.Policy[Result]
	tracker    *queue.Tracker[request]

	started atomic.Bool
	open    atomic.Bool // the queue is there: it has goroutines, so Start makes it
	queue   *queue.Queue[request]
	stats   stats
}

// Name is the name the Controller was given.
func (c *Controller[request]) Name() string { return c.name }

// Start starts the sources in order, then the workers, and returns when ctx has ended and everything has
// stopped. If a source cannot start, it stops what it started and returns an error that names the
// controller and the source. It returns nil after a clean stop.
//
// On stop no attempt begins any more; attempts that are running have the grace period to finish, then
// their context is cancelled; durable sources settle what succeeded and give everything else back, so
// that another replica has it at once.
//
// Start may be called once.
func (c *Controller[request]) Start(ctx context.Context) error {
	if c.started.Swap(true) {
		return fmt.Errorf("controller %q: it was started before; build another one", c.name)
	}
	if c.logger == nil {
		c.logger = DefaultLogger(ctx)
	}
	c.logger = c.logger.With("controller", c.name)
	c.queue = queue.New(c.name, c.limiter)
	c.open.Store(true)
	c.tracker.SetQueued(c.queue.Holds)
	c.tracker.SetObserver(Observe[request](c.name))

	sourcesCtx, stopSources := context.WithCancel(ctx)
	defer stopSources()
	attemptsCtx, cancelAttempts := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelAttempts()

	r := &run{controller: c.name, everyReplica: ctx.Value(everyReplicaKey{}) != nil}
	handles := make([]*Handle, len(c.sources))
	for i, src := range c.sources {
		name := sourceName(src, i)
		handles[i] = &Handle{
			run: r, source: name, tracker: c.tracker, queue: c.queue,
			logger: c.logger.With("source", name),
		}
	}
	reports := metrics.NewController(c.name, func() metrics.ControllerReading { return c.measured(handles) })
	defer reports.End()
	c.queue.OnWait(reports.Waited)
	var forwarders, workers sync.WaitGroup
	err := c.startSources(sourcesCtx, handles, &forwarders)
	if err == nil {
		c.logger.Info("controller started", "sources", len(c.sources), "workers", c.workers)
		for range c.workers {
			workers.Go(func() { c.work(ctx, attemptsCtx, &workers) })
		}
		<-ctx.Done()
	}
	stopSources()
	c.queue.ShutDown()
	err = errors.Join(err, c.stop(r, &workers, cancelAttempts))
	forwarders.Wait()
	c.logger.Info("controller stopped")
	return err
}

// DefaultLogger is the logger of whoever was given none: the one that ctx carries for logr (in a
// controller-runtime process it does), otherwise slog.Default().
func DefaultLogger(ctx context.Context) *slog.Logger {
	if l := logr.FromContextAsSlogLogger(ctx); l != nil {
		return l
	}
	return slog.Default()
}

// startSources starts the sources one after the other. A source that fails because ctx has ended did
// not fail.
func (c *Controller[request]) startSources(ctx context.Context, handles []*Handle, forwarders *sync.WaitGroup) error {
	for i, src := range c.sources {
		h := handles[i]
		out := make(chan request, ahead)
		forwarders.Go(func() { c.forward(ctx, h, out) })
		err := src.Start(context.WithValue(ctx, handleKey{}, h), out)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // stopping is no failure
		}
		if err != nil {
			return fmt.Errorf("controller %q: starting %s: %w", c.name, h.source, err)
		}
	}
	return nil
}

// sourceName names a source in logs and errors: by its String method if it has one.
func sourceName(src any, i int) string {
	if s, ok := src.(fmt.Stringer); ok {
		return fmt.Sprintf("source %d (%s)", i+1, s)
	}
	return fmt.Sprintf("source %d (%T)", i+1, src)
}

// forward queues what one source pushes.
func (c *Controller[request]) forward(ctx context.Context, h *Handle, out <-chan request) {
	for {
		select {
		case <-ctx.Done():
			return
		case req := <-out:
			h.pushed.Add(1)
			c.queue.Add(req, h.cause())
		}
	}
}

// stop waits for the attempts that run and for the sources, at most as long as the grace period allows.
func (c *Controller[request]) stop(r *run, workers *sync.WaitGroup, cancelAttempts func()) error {
	graceCtx, cancel := context.WithTimeout(context.Background(), c.grace)
	defer cancel()

	r.mu.Lock()
	stops := r.stops
	r.mu.Unlock()
	errs := make([]error, len(stops)+1)
	var stopping sync.WaitGroup
	for i, stop := range stops {
		stopping.Go(func() { errs[i] = stop(graceCtx) })
	}

	idle := make(chan struct{})
	go func() {
		workers.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-graceCtx.Done():
		cancelAttempts()
		timer := time.NewTimer(cancelled)
		defer timer.Stop()
		select {
		case <-idle:
		case <-timer.C:
			errs[len(stops)] = fmt.Errorf("controller %q: %d attempts still run %v after their context was "+
				"cancelled; does Reconcile look at its context?", c.name, c.stats.running.Load(), cancelled)
		}
	}
	stopping.Wait()
	return errors.Join(errs...)
}
