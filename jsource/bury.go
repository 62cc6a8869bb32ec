package jsource

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
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
}

// burials stores dead letters, one after the other, in the order in which they became due. Only when the
// server has confirmed a letter is its original told; until then the original stays unsettled.
type burials[K comparable, T any, request comparable] struct {
	run    *run[K, T, request]
	prefix string
	none   bool // NoDeadLetters

	mu      sync.Mutex
	waiting []burial[K, T, request]
	wake    chan struct{}
	err     error // why the last letter could not be stored
	stored  uint64
}

// newBurials provisions the stream for dead letters and checks it.
func newBurials[K comparable, T any, request comparable](ctx context.Context, r *run[K, T, request], prefix string) (
	*burials[K, T, request], error,
) {
	b := &burials[K, T, request]{run: r, prefix: prefix, wake: make(chan struct{}, 1), none: r.src.options.noDead}
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
	_, err := consumer.ProvisionStream(ctx, b.run.js, want)
	return err
}

// add makes a dead letter due. It does not wait for it to be stored.
func (b *burials[K, T, request]) add(due burial[K, T, request]) {
	due.at = time.Now()
	due.delivery.err = due.err
	b.mu.Lock()
	b.waiting = append(b.waiting, due)
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
	for {
		select {
		case <-b.run.stopped:
			return
		case <-b.wake:
		}
		for {
			b.mu.Lock()
			if len(b.waiting) == 0 {
				b.waiting = nil
				b.mu.Unlock()
				break
			}
			due := b.waiting[0]
			b.waiting[0] = burial[K, T, request]{}
			b.waiting = b.waiting[1:]
			b.mu.Unlock()
			if !b.bury(ctx, due) {
				return
			}
		}
	}
}

// bury stores one dead letter, trying until it succeeds, and then tells the original. It returns false when
// the source has stopped first.
func (b *burials[K, T, request]) bury(ctx context.Context, due burial[K, T, request]) bool {
	log := b.run.log.With("sequence", due.delivery.msg.Sequence(), "reason", due.reason, "error", due.err)
	if due.req != nil {
		log = log.With("request", *due.req, "attempts", due.attempts)
	}
	for wait := burialFirst; !b.none; wait = min(2*wait, burialMost) {
		err := b.store(ctx, due)
		b.mu.Lock()
		if b.err = err; err == nil {
			b.stored++
		}
		b.mu.Unlock()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return false
		}
		log.Error("a dead letter cannot be stored: the message stays unsettled", "storing", err, "again in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
	if b.none {
		log.Error("a message can never be reconciled, and no dead letters are kept: terminated")
	} else {
		log.Error("a message can never be reconciled: it is a dead letter now")
	}
	if due.req != nil {
		due.delivery.Buried(*due.req)
	} else {
		due.delivery.msg.Term()
	}
	return true
}

// store publishes one dead letter and waits for the stream's answer.
func (b *burials[K, T, request]) store(ctx context.Context, due burial[K, T, request]) error {
	ctx, cancel := context.WithTimeout(ctx, burialTimeout)
	defer cancel()
	m, stream := due.delivery.msg, b.run.consumer.Stream()
	letter := due.letter(stream, deadSubject(b.prefix, stream, b.run.durable, m.Sequence()))
	if err := b.original(ctx, stream, m, letter); err != nil {
		return err
	}
	err := b.publish(ctx, letter, due)
	if tooLarge(err) {
		// The original's stream retains it: a reference will do.
		size := len(letter.Data)
		letter = due.letter(stream, letter.Subject)
		letter.Header.Set(DeadReference, fmt.Sprintf("the payload of %d bytes is too large together with these headers; stream %s keeps it at sequence %d",
			size, stream, m.Sequence()))
		err = b.publish(ctx, letter, due)
	}
	if err != nil {
		return fmt.Errorf("storing the dead letter of sequence %d of stream %q: %w", m.Sequence(), stream, err)
	}
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
		if raw, err = handle.GetMsg(ctx, m.Sequence()); err == nil && raw.Time.Equal(m.Stored()) {
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

// publish stores letter; however often it is tried within the stream's duplicate window, it is stored once.
func (b *burials[K, T, request]) publish(ctx context.Context, letter *natsgo.Msg, due burial[K, T, request]) error {
	h := fnv.New64a()
	if due.req != nil {
		h.Write([]byte(sprint(*due.req)))
	}
	m := due.delivery.msg
	id := fmt.Sprintf("%s/%s/%d/%d/%x", b.run.consumer.Stream(), b.run.durable, m.Sequence(), m.Stored().UnixNano(), h.Sum64())
	_, err := b.run.js.PublishMsg(ctx, letter, jetstream.WithMsgID(id))
	return err
}

// tooLarge reports whether a message was refused for its size.
func tooLarge(err error) bool {
	return errors.Is(err, natsgo.ErrMaxPayload) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum)
}

// health is why dead letters cannot be stored, nil if they can.
func (b *burials[K, T, request]) health() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// sprint is a request as text.
func sprint(req any) string {
	if s, ok := req.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprint(req)
}

// burying reports whether all of the message is to become a dead letter.
func (d *delivery[K, T, request]) burying() bool {
	b := d.run.burials
	b.mu.Lock()
	defer b.mu.Unlock()
	return d.buried
}

// inherit takes over what old superseded, and old itself.
func (d *delivery[K, T, request]) inherit(old *delivery[K, T, request]) {
	b := d.run.burials
	b.mu.Lock()
	defer b.mu.Unlock()
	d.superseded = append(append(d.superseded, old.superseded...), old.msg.Sequence())
	d.replaced += old.replaced + 1
	if over := len(d.superseded) - maxNamed; over > 0 {
		d.superseded = append(d.superseded[:0], d.superseded[over:]...)
	}
	old.superseded = nil
}

// named lists the messages that d superseded.
func (d *delivery[K, T, request]) named() string {
	b := d.run.burials
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for _, seq := range d.superseded {
		list = append(list, strconv.FormatUint(seq, 10))
	}
	if more := d.replaced - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d before", more))
	}
	return strings.Join(list, " ")
}
