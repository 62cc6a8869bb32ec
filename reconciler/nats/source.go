package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/reconciler"
)

// Source pushes the requests that a topic's events are mapped to, over a core-NATS subscription: fire
// and forget, see the package's documentation. Make one with [Mapped] or [Subject].
//
// The methods that configure it change it and return it, so that they can be chained; calling one
// again replaces what the earlier call set. They must not be called once the source was started.
// One Source may be started several times, each time with a subscription of its own.
type Source[K comparable, T any, request any] struct {
	conn    Subscriber
	topic   Topic[K, T]
	mapper  Mapper[K, T, request]
	filters Filters[K, T]
	group   string
	bound   time.Duration // how long Start waits for the server
}

// Mapped returns a source of the requests that m maps the topic's events to. The conn stays the
// caller's: the source never closes it.
func Mapped[K comparable, T any, request any](
	conn Subscriber, topic Topic[K, T], m Mapper[K, T, request],
) *Source[K, T, request] {
	return &Source[K, T, request]{conn: conn, topic: topic, mapper: m, bound: startBound}
}

// Subject returns a source whose requests are the keys of the topic's events, for a controller of
// the topic's own resources.
func Subject[K comparable, T any](conn Subscriber, topic Topic[K, T]) *Source[K, T, K] {
	return Mapped(conn, topic, byKey[K, T])
}

// OnCreate maps only those Created events for whose resource pass returns true. By default, and with
// nil, all of them are.
func (s *Source[K, T, request]) OnCreate(pass func(created T) bool) *Source[K, T, request] {
	s.filters.Create = pass
	return s
}

// OnUpdate maps only those Updated events for which pass returns true, given the resource before and
// after the change. By default, and with nil, all of them are.
func (s *Source[K, T, request]) OnUpdate(pass func(old, updated T) bool) *Source[K, T, request] {
	s.filters.Update = pass
	return s
}

// OnDelete maps only those Deleted events for whose resource, as it last was, pass returns true. By
// default, and with nil, all of them are.
func (s *Source[K, T, request]) OnDelete(pass func(old T) bool) *Source[K, T, request] {
	s.filters.Delete = pass
	return s
}

// Ignore drops all events of the given kinds and does not even subscribe to them; without kinds it
// drops none. A kind there is none of, and ignoring all kinds, is an error of Start.
func (s *Source[K, T, request]) Ignore(kinds ...EventKind) *Source[K, T, request] {
	s.filters.Ignored = slices.Clone(kinds)
	return s
}

// QueueGroup makes all sources with this name and topic, in whatever process, share the events: each
// event goes to one of them. By default, and with "", every source receives every event.
func (s *Source[K, T, request]) QueueGroup(name string) *Source[K, T, request] {
	s.group = name
	return s
}

// String names the source in logs and errors.
func (s *Source[K, T, request]) String() string {
	return fmt.Sprintf("NATS source on %q", s.topic.Subject())
}

// Start subscribes to the topic and returns when the server has confirmed it, so that every
// event published from then on is received. While the server cannot be reached it waits, until ctx ends
// and for 30 seconds at most. An unusable topic or filter, a nil conn or mapper, a closed connection
// and a missing permission are errors at once.
//
// From then on requests are pushed to out until ctx ends, which unsubscribes. A push waits until out is
// read: events wait in the subscription's buffer then, and what exceeds it is dropped by the nats.go
// client (the connection's error handler is told of that). An event that cannot be decoded, and
// one whose filter or mapper panics, is logged with its subject and dropped.
func (s *Source[K, T, request]) Start(ctx context.Context, out chan<- request) error {
	if err := s.start(ctx, out); err != nil {
		return fmt.Errorf("starting the %s: %w", s, err)
	}
	return nil
}

func (s *Source[K, T, request]) start(ctx context.Context, out chan<- request) error {
	switch {
	case s.conn == nil:
		return errors.New("its connection is nil; give it a connected *nats.Conn")
	case s.mapper == nil:
		return errors.New("its mapper is nil")
	}
	if err := s.topic.Validate(); err != nil {
		return err
	}
	if err := s.filters.Validate(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	subjects := []string{s.topic.Subject()}
	if left := s.filters.Kinds(); len(left) < len(kinds) {
		subjects = subjects[:0]
		for _, kind := range left {
			subjects = append(subjects, s.topic.SubjectOf(kind))
		}
	}
	// A context of its own: when Start fails, a handler that is pushing already must let go.
	running, stop := context.WithCancel(ctx)
	r := &receiver[K, T, request]{Source: s, ctx: running, out: out, logger: logger(ctx)}
	subs, err := subscribe(ctx, s.conn, subjects, s.group, s.bound, r.receive)
	if err != nil {
		stop()
		return err
	}
	context.AfterFunc(ctx, func() {
		stop()
		subs.unsubscribe()
	})
	return nil
}

func logger(ctx context.Context) *slog.Logger {
	if handle, ok := reconciler.FromContext(ctx); ok {
		return handle.Logger()
	}
	return slog.Default()
}

// receiver is a Source that was started.
type receiver[K comparable, T any, request any] struct {
	*Source[K, T, request]
	ctx    context.Context
	out    chan<- request
	logger *slog.Logger
	// one at a time: with Ignore there are several subscriptions, and nats.go has a goroutine for each.
	one sync.Mutex
}

func (r *receiver[K, T, request]) receive(msg *natsgo.Msg) {
	r.one.Lock()
	defer r.one.Unlock()
	if r.ctx.Err() != nil || !r.topic.owns(msg.Subject) {
		return
	}
	for _, req := range r.requests(msg) {
		select {
		case r.out <- req:
		case <-r.ctx.Done():
			return
		}
	}
}

// requests is what the message is mapped to; nothing when it is dropped.
func (r *receiver[K, T, request]) requests(msg *natsgo.Msg) (reqs []request) {
	defer func() {
		if p := recover(); p != nil {
			reqs = nil
			r.logger.ErrorContext(r.ctx, "a filter or the mapper panicked; the event is dropped",
				"subject", msg.Subject, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	event, err := r.topic.Decode(msg.Subject, msg.Data)
	if err != nil {
		r.logger.ErrorContext(r.ctx, "an event cannot be used and is dropped", "subject", msg.Subject, "error", err)
		return nil
	}
	if !r.filters.Pass(event) {
		return nil
	}
	return r.mapper(r.ctx, event)
}
