package jsource

import (
	"context"
	"errors"
	"fmt"
	"sync"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler/nats"
)

// Source is a durable source of requests: see the package documentation. It is made by [Mapped],
// [TryMapped] or [Subject]; its options change it and return it, and have no effect once it was started.
// A Source is started once, by the controller that watches it, or with [Source.Track] by any engine.
type Source[K comparable, T any, request comparable] struct {
	conn    *natsgo.Conn
	topic   nats.Topic[K, T]
	mapper  tryMapper[K, T, request]
	filters nats.Filters[K, T]
	options options
	tracker *queue.Tracker[request]
	errs    []error

	mu      sync.Mutex
	started bool
	run     *run[K, T, request] // once it is started
}

type tryMapper[K comparable, T any, request any] func(context.Context, nats.Event[K, T]) ([]request, error)

// Mapped returns a source that maps each event of topic to requests with m. It takes what
// [nats.Mapped] takes; conn must be connected to a server with JetStream.
func Mapped[K comparable, T any, request comparable](conn *natsgo.Conn, topic nats.Topic[K, T],
	m nats.Mapper[K, T, request],
) *Source[K, T, request] {
	s := TryMapped(conn, topic, func(ctx context.Context, e nats.Event[K, T]) ([]request, error) {
		return m(ctx, e), nil
	})
	if m == nil {
		s.errs = append(s.errs, errors.New("the mapper is nil"))
	}
	return s
}

// TryMapped is [Mapped] with a mapper that can fail, for one that looks something up: the message is then
// given back and handed out again, after a delay that grows from 100 milliseconds to 5 minutes, and
// nothing is lost.
func TryMapped[K comparable, T any, request comparable](conn *natsgo.Conn, topic nats.Topic[K, T],
	m func(context.Context, nats.Event[K, T]) ([]request, error),
) *Source[K, T, request] {
	s := &Source[K, T, request]{conn: conn, topic: topic, mapper: m, options: options{delays: defaultDelays}}
	if conn == nil {
		s.errs = append(s.errs, errors.New("the NATS connection is nil"))
	}
	if m == nil {
		s.errs = append(s.errs, errors.New("the mapper is nil"))
	}
	return s
}

// Subject returns a source whose requests are the keys of the topic's events.
func Subject[K comparable, T any](conn *natsgo.Conn, topic nats.Topic[K, T]) *Source[K, T, K] {
	return TryMapped(conn, topic, func(_ context.Context, e nats.Event[K, T]) ([]K, error) {
		return []K{e.Key}, nil
	})
}

// OnCreate lets only those Created events through for which pass returns true. Default: all.
func (s *Source[K, T, request]) OnCreate(pass func(created T) bool) *Source[K, T, request] {
	s.filters.Create = pass
	return s
}

// OnUpdate lets only those Updated events through for which pass returns true. Default: all.
func (s *Source[K, T, request]) OnUpdate(pass func(old, updated T) bool) *Source[K, T, request] {
	s.filters.Update = pass
	return s
}

// OnDelete lets only those Deleted events through for which pass returns true. Default: all.
func (s *Source[K, T, request]) OnDelete(pass func(old T) bool) *Source[K, T, request] {
	s.filters.Delete = pass
	return s
}

// Ignore lets no event of these kinds through; the server does not even send them. It is part of the
// durable's filter, which cannot change: a durable that exists with another one is refused at Start.
func (s *Source[K, T, request]) Ignore(kinds ...nats.EventKind) *Source[K, T, request] {
	s.filters.Ignored = append([]nats.EventKind(nil), kinds...)
	return s
}

// QueueGroup is Durable by the name it has in core NATS: replicas that use the same name share the events.
func (s *Source[K, T, request]) QueueGroup(name string) *Source[K, T, request] {
	return s.Durable(name)
}

// Track makes the source register what its messages owe with t instead of with the controller that starts
// it: for an engine that is not this module's. Wrap that engine's reconcile function with [queue.Wrap] (or
// kube.Wrap) on the same tracker, and call [Source.Drain] when it stops. Durable is required then.
func (s *Source[K, T, request]) Track(t *queue.Tracker[request]) *Source[K, T, request] {
	if t == nil {
		s.errs = append(s.errs, errors.New("the tracker given to Track is nil"))
	}
	s.tracker = t
	return s
}

// String names the source in logs and errors.
func (s *Source[K, T, request]) String() string { return fmt.Sprintf("jsource %s", s.topic.Subject()) }
