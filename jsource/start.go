package jsource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/metrics"
	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
)

const (
	// startTimeout bounds how long Start waits for a server that is not there yet.
	startTimeout = 30 * time.Second
	// replicaKept is how long the server keeps the durable of a replica that is not there.
	replicaKept = 7 * 24 * time.Hour
	// drainGrace is how long running attempts may take after the source's context has ended, when
	// nobody calls Drain.
	drainGrace = 20 * time.Second
)

// run is a Source that was started.
type run[K comparable, T any, request comparable] struct {
	src        *Source[K, T, request]
	ctx        context.Context // ends when the source's does, or when the stop begins
	cancel     context.CancelFunc
	out        chan<- request
	controller string
	durable    string
	handle     *reconciler.Handle // nil with another engine
	log        *slog.Logger
	js         jetstream.JetStream
	consumer   *consumer.Consumer
	tracker    *queue.Tracker[request]
	group      *queue.Group[request]
	burials    *burials[K, T, request]
	watch      watch
	kinds      map[string]uint8 // of the topic's subjects, as a delivery keeps them
	metrics    *metrics.Source
	mute       func() // nobody is told how it is doing any more

	stopping  chan struct{} // closed when the stop has begun
	stopped   chan struct{} // closed when it has ended
	hurry     chan struct{} // closed when running attempts have no more time to finish
	hurryOnce sync.Once
	stopErr   error
	draining  atomic.Bool
	workers   sync.WaitGroup
}

// Start implements [reconciler.Source]: it provisions the stream and the durable, or checks them, and
// consumes until ctx ends. Controllers call it.
func (s *Source[K, T, request]) Start(ctx context.Context, out chan<- request) error {
	if err := s.start(ctx, out); err != nil {
		return fmt.Errorf("jsource on topic %q: %w", s.topic.Subject(), err)
	}
	return nil
}

func (s *Source[K, T, request]) start(ctx context.Context, out chan<- request) error {
	errs := append([]error{}, s.errs...)
	errs = append(errs, s.topic.Validate(), s.filters.Validate())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r := &run[K, T, request]{
		src: s, out: out, log: reconciler.DefaultLogger(ctx), tracker: s.tracker,
		stopping: make(chan struct{}), stopped: make(chan struct{}), hurry: make(chan struct{}),
	}
	s.mu.Lock()
	started := s.started
	s.started = true
	s.mu.Unlock()
	if started {
		return errors.New("it was started before: make another one")
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	err := r.identify()
	if err == nil {
		err = r.begin(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		r.cancel()
		s.started = false
		return err
	}
	s.run = r
	return nil
}

// identify finds out on whose behalf the source runs and what its durable is called.
func (r *run[K, T, request]) identify() error {
	o := &r.src.options
	h, ours := reconciler.FromContext(r.ctx)
	if ours {
		r.log = h.Logger()
	}
	switch {
	case r.tracker != nil:
		if o.durable == "" {
			return errors.New("a source with Track needs a name for its durable: set Durable")
		}
		if ours {
			return fmt.Errorf("controller %q keeps account by itself, and Track is for other engines: remove it", h.Controller())
		}
		r.controller = o.durable
		r.tracker.SetObserver(reconciler.Observe[request](r.controller))
	case ours:
		if r.tracker = reconciler.TrackerFrom[request](r.ctx); r.tracker == nil {
			return errors.New("its requests are of another type than the controller's")
		}
		r.handle, r.controller = h, h.Controller()
	default:
		return errors.New("it was started by an engine that is not this module's and has no tracker: " +
			"use Track, wrap the engine's reconcile function with queue.Wrap on the same tracker, and call Drain when the engine stops")
	}
	if ours && h.EveryReplica() && o.durable == "" && o.replica == "" {
		return fmt.Errorf("controller %q runs in every replica, and its source does not say who gets what: core NATS gave every event to "+
			"every replica; a durable gives each to one. Choose Durable(name) or QueueGroup(name), which mean the same and share the events "+
			"among the replicas, or PerReplica(id), which gives every replica all of them", h.Controller())
	}
	r.durable = o.durable
	if r.durable == "" {
		r.durable = durableName(r.controller, r.src.topic.Prefix())
	}
	if o.replica != "" {
		r.durable = replicaName(r.durable, o.replica)
	}
	if ours {
		if err := h.Claim("durable " + r.durable); err != nil {
			return fmt.Errorf("two sources of one controller would share a durable: %w; give them names of their own with Durable", err)
		}
	}
	return nil
}

// begin opens what the source consumes and starts to consume it.
func (r *run[K, T, request]) begin(source context.Context) error {
	s, o := r.src, &r.src.options
	js := o.js
	if js == nil {
		var err error
		if js, err = jetstream.New(s.conn); err != nil {
			return fmt.Errorf("making a JetStream context: %w", err)
		}
	}
	r.js = consumer.Permitted(js)
	r.kinds = map[string]uint8{}
	for i, subject := range subjects(s.topic, allKinds) {
		r.kinds[subject] = uint8(i + 1)
	}
	cfg := consumer.Config{
		Subjects:      subjects(s.topic, s.filters.Kinds()),
		Covers:        subjects(s.topic, allKinds),
		Root:          s.topic.Subject(),
		Durable:       r.durable,
		Stream:        o.stream,
		Bind:          o.bind,
		AckWait:       o.ackWait,
		MaxAckPending: o.maxAckPending,
		DeliverPolicy: o.deliverPolicy,
		HoldLimit:     o.holdLimit,
		StartTimeout:  startTimeout,
		Logger:        r.log,
		Owner:         map[string]string{metaTopic: s.topic.Prefix()},
	}
	if r.handle != nil {
		cfg.Owner[metaController] = r.controller
	}
	if o.replica != "" {
		cfg.InactiveThreshold = replicaKept
	}
	ctx, cancel := context.WithTimeout(r.ctx, startTimeout)
	defer cancel()
	deadRoot, err := deadPrefix(o)
	if err != nil {
		return err
	}
	cfg.Metadata = map[string]string{metaDead: deadRoot}
	if err := reach(ctx, r.js); err != nil {
		return err
	}
	if r.consumer, err = consumer.Open(ctx, r.js, cfg); err != nil {
		return err
	}
	r.log = r.log.With("stream", r.consumer.Stream(), "durable", r.durable)
	if r.burials, err = newBurials(ctx, r, deadRoot); err != nil {
		return err
	}
	r.group = r.tracker.NewGroup(queue.GroupOptions{MaxAttempts: o.maxAttempts, Supersede: o.supersede})
	if r.handle != nil {
		r.handle.OnStop(r.stop)
	}
	select {
	case <-r.tracker.Attempted():
	default:
		// Until the first attempt ever only one message is held: there may be no engine behind the
		// channel yet (a manager without leadership that warms up).
		r.consumer.SetLimit(1)
	}
	if r.mute, err = r.answer(); err != nil {
		return err
	}
	r.metrics = metrics.NewSource(metrics.SourceLabels{Controller: r.controller, Topic: s.topic.Prefix(), Durable: r.durable}, r.measured)
	if err := r.consumer.Start(r); err != nil {
		r.mute()
		r.metrics.End()
		return err
	}
	r.workers.Go(r.burials.work)
	r.workers.Go(r.look)
	go r.stopWithContext(source)
	return nil
}

// stopWithContext stops the source when its context has ended and nobody else does.
func (r *run[K, T, request]) stopWithContext(source context.Context) {
	select {
	case <-r.stopped:
		return
	case <-source.Done():
	}
	if r.handle != nil {
		return // the controller calls stop
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(source), drainGrace)
	defer cancel()
	if err := r.stop(ctx); err != nil {
		r.log.Error("stopping", "error", err)
	}
}
