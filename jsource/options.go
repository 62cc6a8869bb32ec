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
// them. Default: "<controller>-<topic>", where "." becomes "_" and what is not a letter or digit "=" and two
// hexadecimal digits ("shop.late_orders" is "shop_late=5Forders"), but for "-" and "_" of the controller. Choose a
// name when others have to know it, who call [WaitReconciled] or set up permissions, and the default is not plain.
func (s *Source[K, T, request]) Durable(name string) *Source[K, T, request] {
	if err := consumer.CheckName(name); err != nil {
		s.errs = append(s.errs, fmt.Errorf("durable name %w", err))
	}
	s.options.durable = name
	return s
}

// PerReplica gives every replica every event, as core NATS does without a queue group: each id has a
// durable of its own. Default: replicas share one durable, and each event goes to one of them.
//
// Use it when each replica keeps state of its own (a cache, a local file) that every event must reach. It gives
// up the sharing of work: each replica does all of it, reconciles run once for each replica, and
// [WaitReconciled] waits for one of them. id must stay the same when the replica restarts (a StatefulSet's pod
// name), or it begins anew with the oldest message of the stream. The server deletes the durable of a replica
// that has not been there for 7 days, so one that is away for longer begins anew as well.
func (s *Source[K, T, request]) PerReplica(id string) *Source[K, T, request] {
	if id == "" {
		s.errs = append(s.errs, fmt.Errorf("the id given to PerReplica is empty"))
	}
	s.options.replica = id
	return s
}

// Stream names the stream, which is made as cfg says if it does not exist; empty Subjects mean the
// topic's, an empty Name one made from the topic's. Otherwise cfg is taken as it is: what is zero in it is the server's
// default (no age limit, no direct get), so start from [consumer.StreamConfig]. An existing stream is never changed. Default: the
// stream that already holds the topic's subjects, else a new one, as [consumer.StreamConfig] says.
func (s *Source[K, T, request]) Stream(cfg jetstream.StreamConfig) *Source[K, T, request] {
	if cfg.Name != "" {
		if err := consumer.CheckName(cfg.Name); err != nil {
			s.errs = append(s.errs, fmt.Errorf("Stream: the stream's name %w", err))
		}
	}
	s.options.stream = cfg
	return s
}

// Bind uses the stream, the durable and the stream of dead letters as they are, and creates and changes none of
// them; one that is missing is an error at Start. Default: they are made if they are missing, and checked and
// updated if they are not.
//
// Use it when somebody else provisions them, or when the controller's user may not (docs/permissions.md has what
// it then needs). It gives up the checks that keep messages safe: a durable whose MaxDeliver is limited loses
// messages, since the server drops them once they were handed out that often; AckWait and MaxAckPending given
// here have no effect; and a durable that is deleted is waited for, not made again. Heartbeats are fitted to the
// durable's AckWait or BackOff.
func (s *Source[K, T, request]) Bind() *Source[K, T, request] {
	s.options.bind = true
	return s
}

// AckWait is how long after a crash a message is handed out again; while its replica lives, heartbeats
// keep it. Default: 30 seconds. At least 30 milliseconds. It is no limit for a reconcile, which may take as long
// as it likes.
//
// Shorten it when what a crashed replica was working on must be taken up sooner. That costs heartbeats, one
// for each message held every third of AckWait: a thousand held are 100 a second by default, and with an AckWait
// of 500 milliseconds 6,000, each of which a replicated stream puts through Raft. And a pause longer than
// AckWait (of the process, the network or the server) has messages handed out twice.
func (s *Source[K, T, request]) AckWait(d time.Duration) *Source[K, T, request] {
	if d <= 0 {
		s.errs = append(s.errs, fmt.Errorf("AckWait %v is not positive", d))
	}
	s.options.ackWait = d
	return s
}

// MaxAckPending is how many messages may be unsettled at once, over all replicas; messages beyond wait in
// the stream. Default: 1000. It bounds memory (about half a kilobyte for each message held; payloads are
// dropped once they are mapped) and heartbeats, which are sent for each of them every third of [Source.AckWait].
//
// Raise it when many keys fail for long, so that they do not keep the others out, or when reconciles are slow
// and many. Lower it when a stop should give back less. With [Source.Supersede] as many as there are keys is
// enough.
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
// of unsettled messages is bounded by the number of requests. Default: off, each message is settled when it is
// reconciled.
//
// Use it when some keys change often and reconciling them can fail or take long: their messages do not fill
// MaxAckPending then. It is only for a mapper and filters that depend on the event alone: one that lists other
// objects may map the newer event to fewer requests when that is handed out again, and what only the older
// one owed is lost. It also gives up the single message's story: its ack says that a newer one stands for it, not
// that it was reconciled. Failed attempts carry over to the newer message, and its dead letter names those
// it superseded (the last 100).
func (s *Source[K, T, request]) Supersede() *Source[K, T, request] {
	s.options.supersede = true
	return s
}

// MaxAttempts is the number of failed attempts on a request after which a message that owes it becomes a
// dead letter. Default: 0, never: it is tried again with backoff for as long as the stream keeps the message.
// Attempts are counted by each process: one that is handed the message anew begins with none. What a stop cuts
// short does not count.
//
// Use it when keys that fail for good must not take up room, and somebody looks after dead letters. It gives up
// the retries: an outage of what the Reconciler depends on that outlasts so many attempts makes dead letters of
// healthy keys, which nothing tries again but a resync or a replay. Choose a number whose backoff outlasts such
// an outage, or return [reconciler.TerminalError] for what cannot succeed and leave this alone.
func (s *Source[K, T, request]) MaxAttempts(n int) *Source[K, T, request] {
	if n < 0 {
		s.errs = append(s.errs, fmt.Errorf("MaxAttempts %d is negative", n))
	}
	s.options.maxAttempts = n
	return s
}

// MaxDeliveries is how often a message is handed out; a further hand-out makes it a dead letter before it is
// mapped, since it may be what kills the process. Default: 100; at least 1. Hand-outs are counted by the server, so
// over all replicas and restarts, and failed attempts within one process do not add to them.
//
// Lower it when a poisonous message should be out of the way after fewer crashes. What it gives up: restarts
// count too, and so do a mapper that fails, a HoldLimit and a message that could not be decoded, so a low number
// can bury a message that only had bad luck.
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
//
// Use it when reconciles can hang and cannot be given a timeout (reconciler.Builder.Timeout, which is the
// better cure: it ends the attempt). Make it much longer than the slowest healthy reconcile and its retries: it
// counts from the hand-out, waiting and backoff included. It gives up single work: two replicas may reconcile
// the key at once, what the first one does after the limit settles nothing, and each hand-out counts for
// [Source.MaxDeliveries].
func (s *Source[K, T, request]) HoldLimit(d time.Duration) *Source[K, T, request] {
	if d < 0 {
		s.errs = append(s.errs, fmt.Errorf("HoldLimit %v is negative", d))
	}
	s.options.holdLimit = d
	return s
}

// DeadLetters names the stream that keeps dead letters, which is made as cfg says if it does not exist.
// Empty Subjects are chosen by this module, and so is an empty Name; otherwise cfg is taken as it is: what is zero in it is
// the server's default, and a zero MaxAge or MaxBytes no limit. Default: "<stream>-dead", file
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
