package jsource

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
)

const (
	// Limits of a dead-letter stream that this module makes.
	deadMaxAge   = 30 * 24 * time.Hour
	deadMaxBytes = 1 << 30

	// burialTimeout bounds one try to store a dead letter; after a failure it is tried again after
	// burialFirst, then twice that, up to burialMost.
	burialTimeout = 5 * time.Second
	burialFirst   = 100 * time.Millisecond
	burialMost    = 10 * time.Second
)

// burial is one dead letter to be stored: of one request of a message, or of all of it.
type burial[K comparable, T any, request comparable] struct {
	delivery *delivery[K, T, request]
	req      *request // nil: the whole message
	reason   string
	err      error
	attempts int
	at       time.Time
	failed   bool // it could not be stored so far; under burials.mu
}

// burials stores dead letters, one after the other. Only when the server has confirmed a letter is its
// original told; until then the original stays unsettled.
type burials[K comparable, T any, request comparable] struct {
	run    *run[K, T, request]
	prefix string
	none   bool   // NoDeadLetters
	stream string // which keeps them; only provision writes it

	mu      sync.Mutex
	waiting []*burial[K, T, request]
	wake    chan struct{}
	failing int               // letters among those waiting that could not be stored
	err     error             // why the last of them could not
	stored  map[string]uint64 // by reason
}

// newBurials provisions the stream for dead letters and checks it.
func newBurials[K comparable, T any, request comparable](ctx context.Context, r *run[K, T, request], prefix string) (
	*burials[K, T, request], error,
) {
	b := &burials[K, T, request]{run: r, prefix: prefix, wake: make(chan struct{}, 1), none: r.src.options.noDead, stored: map[string]uint64{}}
	if b.none {
		return b, nil
	}
	if err := consumer.Retry(ctx, b.provision); err != nil {
		return nil, fmt.Errorf("the stream for dead letters (see DeadLetters and NoDeadLetters): %w", err)
	}
	return b, nil
}

// provision makes or checks the stream for dead letters.
func (b *burials[K, T, request]) provision(ctx context.Context) error {
	stream := b.run.consumer.Stream()
	want := consumer.StreamWant{
		Covers: []string{deadTree(b.prefix, stream)},
		Bind:   b.run.src.options.bind && reflect.ValueOf(b.run.src.options.dead).IsZero(),
	}
	if cfg := b.run.src.options.dead; !reflect.ValueOf(cfg).IsZero() {
		if cfg.Name == "" {
			cfg.Name = deadName(stream)
		}
		if len(cfg.Subjects) == 0 {
			cfg.Subjects = want.Covers
		}
		want.Name, want.Make = cfg.Name, cfg
	} else {
		want.Make = jetstream.StreamConfig{
			Name:        deadName(stream),
			Description: "dead letters of stream " + stream + ", made by jsource",
			Subjects:    want.Covers,
			MaxAge:      deadMaxAge,
			MaxBytes:    deadMaxBytes,
			AllowDirect: true,
		}
	}
	letters, err := consumer.ProvisionStream(ctx, b.run.js, want)
	if err != nil {
		return err
	}
	cfg := &letters.CachedInfo().Config
	if cfg.NoAck {
		// Bind does not make it one that confirms what it stores.
		return fmt.Errorf("stream %q cannot be used: its no_ack is true, and no dead letter in it is ever confirmed", cfg.Name)
	}
	b.stream = cfg.Name
	return nil
}

// add makes a dead letter due. It does not wait for it to be stored.
func (b *burials[K, T, request]) add(due burial[K, T, request]) {
	due.at = time.Now()
	b.mu.Lock()
	due.delivery.history().err = due.err
	b.waiting = append(b.waiting, &due)
	due.delivery.buried = due.delivery.buried || due.req == nil
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// work stores what is due until the source has stopped.
func (b *burials[K, T, request]) work() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.run.ctx))
	defer cancel()
	go func() {
		select {
		case <-b.run.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	wait := burialFirst
	for {
		due := b.next()
		if due == nil {
			select {
			case <-ctx.Done():
				return
			case <-b.wake:
			}
			continue
		}
		err := b.bury(ctx, due)
		if ctx.Err() != nil {
			return
		}
		b.tried(due, err)
		if err == nil {
			wait = burialFirst
			continue
		}
		due.log().Error("a dead letter cannot be stored: the message stays unsettled", "storing", err, "again in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		wait = min(2*wait, burialMost)
	}
}

// next is the dead letter to be stored next, nil if none is due. It stays the next until tried is called.
func (b *burials[K, T, request]) next() *burial[K, T, request] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.waiting = nil
		return nil
	}
	return b.waiting[0]
}

// tried takes the first of those that are due off the list. If it could not be stored it goes behind the
// others: there may be something wrong with this one alone.
func (b *burials[K, T, request]) tried(due *burial[K, T, request], err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[0] = nil
	b.waiting = b.waiting[1:]
	due.delivery.stuck = err != nil
	switch {
	case err != nil:
		if !due.failed {
			due.failed = true
			b.failing++
		}
		b.err = err
		b.waiting = append(b.waiting, due)
	case due.failed:
		if b.failing--; b.failing == 0 {
			b.err = nil
		}
	}
}

// bury stores one dead letter and then tells the original.
func (b *burials[K, T, request]) bury(ctx context.Context, due *burial[K, T, request]) error {
	if b.none {
		due.log().Error("a message can never be reconciled, and no dead letters are kept: terminated")
	} else {
		if err := b.store(ctx, due); err != nil {
			return err
		}
		b.mu.Lock()
		b.stored[due.reason]++
		b.mu.Unlock()
		due.log().Error("a message can never be reconciled: it is a dead letter now")
	}
	if due.req != nil {
		due.delivery.Buried(*due.req)
	} else {
		due.delivery.msg.Term()
	}
	return nil
}

// log is a logger that says what is to be buried and why.
func (b *burial[K, T, request]) log() *slog.Logger {
	log := b.delivery.run.log.With("sequence", b.delivery.msg.Sequence(), "reason", b.reason, "error", b.err)
	if b.req != nil {
		log = log.With("request", *b.req, "attempts", b.attempts)
	}
	return log
}

// store publishes one dead letter and waits for the stream's answer.
func (b *burials[K, T, request]) store(ctx context.Context, due *burial[K, T, request]) error {
	ctx, cancel := context.WithTimeout(ctx, burialTimeout)
	defer cancel()
	m, stream := due.delivery.msg, b.run.consumer.Stream()
	subject := deadSubject(b.prefix, stream, b.run.durable, m.Sequence())
	letter := due.letter(stream, subject)
	if err := b.original(ctx, stream, m, letter); err != nil {
		return err
	}
	err := b.publish(ctx, letter, due)
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		// Its stream is gone.
		if err = b.provision(ctx); err == nil {
			err = b.publish(ctx, letter, due)
		}
	}
	if tooLarge(err) {
		size := len(letter.Data)
		letter = due.letter(stream, subject)
		if err = b.refer(ctx, stream, m, size, letter, err); err == nil {
			err = b.publish(ctx, letter, due)
		}
	}
	if err != nil {
		return fmt.Errorf("storing the dead letter of sequence %d of stream %q in stream %q: %w",
			m.Sequence(), stream, b.stream, err)
	}
	return nil
}

// refer makes letter a reference to the original, if the stream of that keeps it once it has its verdict.
func (b *burials[K, T, request]) refer(ctx context.Context, stream string, m *consumer.Message, size int,
	letter *natsgo.Msg, cause error,
) error {
	handle, err := b.run.js.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("looking up stream %q: %w", stream, err)
	}
	if r := handle.CachedInfo().Config.Retention; r != jetstream.LimitsPolicy {
		return fmt.Errorf("it cannot be a mere reference, since the stream's retention is %v: %w", r, cause)
	}
	letter.Header.Set(DeadReference, fmt.Sprintf("the payload of %d bytes is too large together with these headers; "+
		"stream %s keeps it at sequence %d", size, stream, m.Sequence()))
	return nil
}

// original adds the message's subject, headers and payload to its dead letter: they were dropped when it was
// mapped, so the stream is asked for them.
func (b *burials[K, T, request]) original(ctx context.Context, stream string, m *consumer.Message, letter *natsgo.Msg) error {
	if m.Subject() != "" {
		addOriginal(letter, m.Subject(), m.Header(), m.Data())
		return nil
	}
	handle, err := b.run.js.Stream(ctx, stream)
	if err == nil {
		var raw *jetstream.RawStreamMsg
		if raw, err = getMsg(ctx, handle, m.Sequence()); err == nil && raw.Time.Equal(m.Stored()) {
			addOriginal(letter, raw.Subject, raw.Header, raw.Data)
			return nil
		}
	}
	if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		letter.Header.Set(DeadReference, "the original is gone from its stream")
		return nil
	}
	return fmt.Errorf("reading sequence %d of stream %q for its dead letter: %w", m.Sequence(), stream, err)
}

// getMsg reads one message of a stream as its publisher sent it.
func getMsg(ctx context.Context, stream jetstream.Stream, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	raw, err := stream.GetMsg(ctx, seq, opts...)
	for try := 1; try < 3 && errors.Is(err, jetstream.ErrMsgNotFound); try++ {
		// A replica that answered may be behind.
		timer := time.NewTimer(50 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		raw, err = stream.GetMsg(ctx, seq, opts...)
	}
	if err != nil {
		return nil, err
	}
	if stream.CachedInfo().Config.AllowDirect {
		// A direct answer says in headers what the message is.
		for _, name := range []string{
			jetstream.StreamHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer, jetstream.SubjectHeader,
			jetstream.LastSequenceHeader, "Nats-Num-Pending",
		} {
			raw.Header.Del(name)
		}
	}
	return raw, nil
}

// publish stores letter; however often it is tried within the stream's duplicate window, it is stored once.
func (b *burials[K, T, request]) publish(ctx context.Context, letter *natsgo.Msg, due *burial[K, T, request]) error {
	h := fnv.New64a()
	if due.req != nil {
		fmt.Fprintf(h, "%#v", *due.req) // its String may say the same of two requests
	}
	m := due.delivery.msg
	id := fmt.Sprintf("%s/%s/%d/%d/%x", b.run.consumer.Stream(), b.run.durable, m.Sequence(), m.Stored().UnixNano(), h.Sum64())
	_, err := b.run.js.PublishMsg(ctx, letter, jetstream.WithMsgID(id), jetstream.WithRetryAttempts(0))
	return err
}

// tooLarge reports whether a message was refused for its size.
func tooLarge(err error) bool {
	return errors.Is(err, natsgo.ErrMaxPayload) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum)
}

// counted is how many dead letters were stored, by reason.
func (b *burials[K, T, request]) counted() map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.stored)
}

// health is why dead letters cannot be stored, nil if they can.
func (b *burials[K, T, request]) health() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// burying reports whether all of the message is to become a dead letter, and whether a letter of it could not
// be stored when that was last tried.
func (d *delivery[K, T, request]) burying() (all, stuck bool) {
	b := d.run.burials
	b.mu.Lock()
	defer b.mu.Unlock()
	return d.buried, d.stuck
}

// inherit takes over what old superseded, and old itself.
func (d *delivery[K, T, request]) inherit(old *delivery[K, T, request]) {
	b := d.run.burials
	b.mu.Lock()
	defer b.mu.Unlock()
	p := d.history()
	if old.past != nil {
		p.superseded = append(p.superseded, old.past.superseded...)
		p.replaced += old.past.replaced
		old.past.superseded = nil
	}
	p.superseded = append(p.superseded, old.msg.Sequence())
	p.replaced++
	if over := len(p.superseded) - maxNamed; over > 0 {
		p.superseded = append(p.superseded[:0], p.superseded[over:]...)
	}
}

// named lists the messages that d superseded.
func (d *delivery[K, T, request]) named() string {
	b := d.run.burials
	b.mu.Lock()
	defer b.mu.Unlock()
	if d.past == nil {
		return ""
	}
	var list []string
	for _, seq := range d.past.superseded {
		list = append(list, strconv.FormatUint(seq, 10))
	}
	if more := d.past.replaced - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d before", more))
	}
	return strings.Join(list, " ")
}
