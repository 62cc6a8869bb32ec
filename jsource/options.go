package jsource

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
)

// DefaultMaxDeliveries is the default of [Source.MaxDeliveries].
const DefaultMaxDeliveries = 100

// options are what the options of a Source set.
type options struct {
	durable       string
	replica       string
	stream        jetstream.StreamConfig
	bind          bool
	ackWait       time.Duration
	maxAckPending int
	deliverPolicy jetstream.DeliverPolicy
	supersede     bool
	maxAttempts   int
	maxDeliveries int
	holdLimit     time.Duration
	dead          jetstream.StreamConfig
	noDead        bool
	js            jetstream.JetStream
	delays        delays
}

// Durable names the durable consumer. Sources of the same name share its messages: each goes to one of
// them. Default: "<controller>-<topic>", with characters that a name cannot hold escaped.
func (s *Source[K, T, request]) Durable(name string) *Source[K, T, request] {
	if err := consumer.CheckName(name); err != nil {
		s.errs = append(s.errs, fmt.Errorf("durable name %w", err))
	}
	s.options.durable = name
	return s
}

// PerReplica gives every replica every event, as core NATS does without a queue group: each id has a
// durable of its own. id must stay the same when the replica restarts (a StatefulSet's pod name), or it
// begins anew with the oldest message of the stream. The server deletes the durable of a replica that has
// not been there for 7 days.
func (s *Source[K, T, request]) PerReplica(id string) *Source[K, T, request] {
	if id == "" {
		s.errs = append(s.errs, fmt.Errorf("the id given to PerReplica is empty"))
	}
	s.options.replica = id
	return s
}

// Stream names the stream, which is made as cfg says if it does not exist; empty Subjects mean the
// topic's, an empty Name one made from the topic's. An existing stream is never changed. Default: the
// stream that already holds the topic's subjects, else a new one, as [consumer.StreamConfig] says.
func (s *Source[K, T, request]) Stream(cfg jetstream.StreamConfig) *Source[K, T, request] {
	s.options.stream = cfg
	return s
}

// Bind uses the stream and the durable as they are, and creates and changes neither. Heartbeats are fitted
// to the durable's AckWait or BackOff. A durable whose MaxDeliver is limited can lose messages: once they
// were handed out that often the server drops them.
func (s *Source[K, T, request]) Bind() *Source[K, T, request] {
	s.options.bind = true
	return s
}

// AckWait is how long after a crash a message is handed out again; while its replica lives, heartbeats
// keep it. Default: 30 seconds. At least 30 milliseconds.
func (s *Source[K, T, request]) AckWait(d time.Duration) *Source[K, T, request] {
	if d <= 0 {
		s.errs = append(s.errs, fmt.Errorf("AckWait %v is not positive", d))
	}
	s.options.ackWait = d
	return s
}

// MaxAckPending is how many messages may be unsettled at once, over all replicas; messages beyond wait in
// the stream. Default: 1000.
func (s *Source[K, T, request]) MaxAckPending(n int) *Source[K, T, request] {
	if n < 1 {
		s.errs = append(s.errs, fmt.Errorf("MaxAckPending %d: at least 1 is needed", n))
	}
	s.options.maxAckPending = n
	return s
}

// DeliverPolicy says where a durable that does not exist yet begins. Default: with the oldest message of
// the stream. An existing durable goes on where it is.
func (s *Source[K, T, request]) DeliverPolicy(p jetstream.DeliverPolicy) *Source[K, T, request] {
	s.options.deliverPolicy = p
	return s
}

// Supersede acks a message early once newer unsettled ones owe all that it still owes, so that the number
// of unsettled messages is bounded by the number of requests. It is only for a mapper and filters that
// depend on the event alone: one that lists other objects may map the newer event to fewer requests. Failed
// attempts carry over to the newer message, and its dead letter names those it superseded.
func (s *Source[K, T, request]) Supersede() *Source[K, T, request] {
	s.options.supersede = true
	return s
}

// MaxAttempts is the number of failed attempts on a request after which a message that owes it becomes a
// dead letter. Default: 0, never.
func (s *Source[K, T, request]) MaxAttempts(n int) *Source[K, T, request] {
	if n < 0 {
		s.errs = append(s.errs, fmt.Errorf("MaxAttempts %d is negative", n))
	}
	s.options.maxAttempts = n
	return s
}

// MaxDeliveries is how often a message is handed out; a further hand-out makes it a dead letter before it is
// mapped, since it may be what kills the process. Default: 100.
func (s *Source[K, T, request]) MaxDeliveries(n int) *Source[K, T, request] {
	if n < 1 {
		s.errs = append(s.errs, fmt.Errorf("MaxDeliveries %d: at least 1 is needed", n))
	}
	s.options.maxDeliveries = n
	return s
}

// HoldLimit is how long one delivery may be held. After that it is given back, so that another replica can
// try, however long its reconcile still takes. Default: 0, no limit: a hanging reconcile holds its messages
// for as long as the process lives.
func (s *Source[K, T, request]) HoldLimit(d time.Duration) *Source[K, T, request] {
	if d < 0 {
		s.errs = append(s.errs, fmt.Errorf("HoldLimit %v is negative", d))
	}
	s.options.holdLimit = d
	return s
}

// DeadLetters names the stream that keeps dead letters, which is made as cfg says if it does not exist.
// Empty Subjects are chosen by this module, and so is an empty Name. Default: "<stream>-dead", file
// storage, 30 days, 1 GiB, the oldest discarded first.
func (s *Source[K, T, request]) DeadLetters(cfg jetstream.StreamConfig) *Source[K, T, request] {
	s.options.dead, s.options.noDead = cfg, false
	return s
}

// NoDeadLetters keeps no dead letters: a message that can never be reconciled is logged as an error and
// terminated.
func (s *Source[K, T, request]) NoDeadLetters() *Source[K, T, request] {
	s.options.noDead = true
	return s
}

// JetStream sets the JetStream context to use: for a domain, an API prefix or a timeout of one's own.
// Default: jetstream.New(conn).
func (s *Source[K, T, request]) JetStream(js jetstream.JetStream) *Source[K, T, request] {
	s.options.js = js
	return s
}
