package jsource

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrLetterNotFound means that there is no dead letter of that ID, or not any more.
var ErrLetterNotFound = errors.New("no such dead letter")

// DeadReplayOf is a header of an event that was published again from a dead letter: "<stream>/<sequence>" of
// the original.
const DeadReplayOf = "Jsource-Replay-Of"

// LetterFilter says which dead letters; an empty field means any.
type LetterFilter struct {
	Stream  string // of the originals
	Durable string // which gave them up
	Reason  string // ReasonTerminal, ReasonAttempts, ReasonUndecodable or ReasonDeliveries
}

// DeadLetters yields the dead letters that are kept now, stream by stream, oldest first. It reads one at a
// time, so that they may be dropped or replayed meanwhile. It ends after the first error.
func (a *Admin) DeadLetters(ctx context.Context, f LetterFilter) iter.Seq2[*DeadLetter, error] {
	return func(yield func(*DeadLetter, error) bool) {
		places, err := a.cemeteries(ctx)
		if err != nil {
			yield(nil, fmt.Errorf("looking for dead letters: %w", err))
			return
		}
		for _, place := range places {
			more, err := a.letters(ctx, place, f, yield)
			if err != nil {
				yield(nil, fmt.Errorf("reading the dead letters in stream %q: %w", place.stream, err))
			}
			if err != nil || !more {
				return
			}
		}
	}
}

// letters yields the letters of one stream; more is false when no more are wanted.
func (a *Admin) letters(ctx context.Context, place cemetery, f LetterFilter, yield func(*DeadLetter, error) bool) (more bool, _ error) {
	stream, err := a.js.Stream(ctx, place.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return true, nil // deleted meanwhile
	}
	if err != nil {
		return false, err
	}
	orAny := func(token string) string {
		if token == "" {
			return "*"
		}
		return token
	}
	filter := place.prefix + "." + orAny(f.Stream) + "." + orAny(f.Durable) + ".*"
	last := stream.CachedInfo().State.LastSeq // what is added meanwhile is for the next call
	for next := uint64(1); next <= last; {
		raw, err := getMsg(ctx, stream, next, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return false, err
		}
		if raw.Sequence > last {
			break
		}
		next = raw.Sequence + 1
		l, ok := readLetter(place.stream, raw)
		if ok && (f.Reason == "" || f.Reason == l.Reason) && !yield(l, nil) {
			return false, nil
		}
	}
	return true, nil
}

// DeadLetter reads one dead letter; the error is [ErrLetterNotFound] if it is not there.
func (a *Admin) DeadLetter(ctx context.Context, id string) (*DeadLetter, error) {
	stream, seq, err := a.place(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("reading dead letter %q: %w", id, err)
	}
	raw, err := getMsg(ctx, stream, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		err = ErrLetterNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading dead letter %q: %w", id, err)
	}
	l, ok := readLetter(stream.CachedInfo().Config.Name, raw)
	if !ok {
		return nil, fmt.Errorf("reading dead letter %q: what is stored there is none: %w", id, ErrLetterNotFound)
	}
	return l, nil
}

// place finds where the letter of an ID lies.
func (a *Admin) place(ctx context.Context, id string) (jetstream.Stream, uint64, error) {
	name, number, ok := strings.Cut(id, "/")
	seq, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || seq == 0 || name == "" {
		return nil, 0, fmt.Errorf(`its ID should look like "orders-dead/17": %w`, ErrLetterNotFound)
	}
	stream, err := a.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrInvalidStreamName) {
		err = fmt.Errorf("there is no stream %q: %w", name, ErrLetterNotFound)
	}
	return stream, seq, err
}

// Drop deletes a dead letter for good; the error is [ErrLetterNotFound] if it is not there any more.
func (a *Admin) Drop(ctx context.Context, l *DeadLetter) error {
	stream, seq, err := a.place(ctx, l.ID)
	if err == nil {
		if err = stream.DeleteMsg(ctx, seq); err != nil {
			if _, gone := stream.GetMsg(ctx, seq); errors.Is(gone, jetstream.ErrMsgNotFound) {
				err = ErrLetterNotFound
			}
		}
	}
	if err != nil {
		return fmt.Errorf("dropping dead letter %q: %w", l.ID, err)
	}
	return nil
}

// Replay publishes the event of a dead letter again, on its original subject and with its original headers, and
// drops the letter once the stream has stored it. Every durable on the topic receives it, as any event. It is a
// new change, with a message ID of its own and a link to the original's trace.
//
// A Replay that was interrupted may be called again: within the stream's duplicate window (2 minutes by default)
// the event is stored once. So it is if several requests of one event became dead letters and all are replayed:
// the event is mapped anew, to all of them.
func (a *Admin) Replay(ctx context.Context, l *DeadLetter) (Receipt, error) {
	r, err := a.replay(ctx, l)
	if err != nil {
		return r, fmt.Errorf("replaying dead letter %q: %w", l.ID, err)
	}
	if err := a.Drop(ctx, l); err != nil && !errors.Is(err, ErrLetterNotFound) {
		return r, fmt.Errorf("it was published, as sequence %d of stream %q, and is still there: %w", r.Sequence, r.Stream, err)
	}
	return r, nil
}

func (a *Admin) replay(ctx context.Context, l *DeadLetter) (Receipt, error) {
	if l.Subject == "" {
		return Receipt{}, errors.New("nobody knows the subject that it was published to")
	}
	msg := natsgo.NewMsg(l.Subject)
	msg.Data = l.Data
	if l.Reference != "" {
		raw, err := a.referred(ctx, l)
		if err != nil {
			return Receipt{}, err
		}
		msg.Data = raw.Data
	}
	for name, values := range l.Header {
		if !isNATS(name) { // expectations, a rollup, a time to live: they were for then
			msg.Header[name] = values
		}
	}
	msg.Header.Set(DeadReplayOf, fmt.Sprintf("%s/%d", l.Stream, l.Sequence))
	// The same for all letters of one delivery, whatever became of an earlier call.
	id := fmt.Sprintf("replay/%s/%d/%d/%s", l.Stream, l.Sequence, l.Stored.UnixNano(), l.Durable)
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.pub.timeout)
		defer cancel()
	}
	return a.pub.send(ctx, msg, publishing{id: id, repeats: l.Header})
}

// referred reads the original of a letter that is a mere reference to it.
func (a *Admin) referred(ctx context.Context, l *DeadLetter) (*jetstream.RawStreamMsg, error) {
	stream, err := a.js.Stream(ctx, l.Stream)
	if err == nil {
		var raw *jetstream.RawStreamMsg
		if raw, err = getMsg(ctx, stream, l.Sequence); err == nil && raw.Time.Equal(l.Stored) {
			return raw, nil
		}
	}
	if err == nil || errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("its payload is not in the letter (%s), and the original is gone", l.Reference)
	}
	return nil, fmt.Errorf("reading the original, sequence %d of stream %q: %w", l.Sequence, l.Stream, err)
}
