package jsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
)

// How often WaitReconciled asks the server: from waitFirst, twice as long each time, up to waitMost.
const (
	waitFirst = 2 * time.Millisecond
	waitMost  = 250 * time.Millisecond
)

// DeadLetterError says that events that were waited for became dead letters.
type DeadLetterError struct {
	Stream    string
	Durable   string
	Sequences []uint64 // of the originals, in their stream; the first 100
}

func (e *DeadLetterError) Error() string {
	return fmt.Sprintf("dead letters instead of reconciled: sequences %v of stream %q for durable %q", e.Sequences, e.Stream, e.Durable)
}

// WaitReconciled waits until durable has settled the event that r names and everything before it. It may be
// called from any process. It returns nil once they are reconciled, a [*DeadLetterError] if some of them
// became dead letters, and an error if the durable or the stream does not exist, or ctx ends first. The name of
// the durable is what [Source.Durable] says; it exists once the controller has been started for the first time.
//
// conn must be allowed to ask for the durable and to read the stream.
func WaitReconciled(ctx context.Context, conn *natsgo.Conn, durable string, r Receipt) error {
	js, err := jetstream.New(conn)
	if err == nil {
		err = waitReconciled(ctx, consumer.Permitted(js), durable, r)
	}
	if err != nil {
		return fmt.Errorf("waiting for durable %q to reconcile sequence %d of stream %q: %w", durable, r.Sequence, r.Stream, err)
	}
	return nil
}

func waitReconciled(ctx context.Context, js jetstream.JetStream, durable string, r Receipt) error {
	if r.Sequence == 0 || r.Stream == "" {
		return errors.New("the receipt is empty: the event was not published")
	}
	w := waiting{js: js, durable: durable, receipt: r}
	var last error
	for wait := waitFirst; ; wait = min(2*wait, waitMost) {
		done, err := w.look(ctx)
		if done {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), last)
		}
	}
}

// waiting is one call of WaitReconciled.
type waiting struct {
	js      jetstream.JetStream
	durable string
	receipt Receipt

	stream jetstream.Stream // nil: to be looked up
	made   time.Time        // when the stream was
	seen   time.Time        // when the durable that was seen last was made
	from   uint64           // what was settled below before is not asked about; 0: the durable was not seen yet
}

// look reports whether there is nothing left to wait for; if there is, the error says what.
func (w *waiting) look(ctx context.Context) (done bool, err error) {
	if w.stream == nil {
		stream, err := w.js.Stream(ctx, w.receipt.Stream)
		if err != nil {
			return w.from == 0 && !consumer.Transient(err), err
		}
		switch created := stream.CachedInfo().Created; {
		case w.made.IsZero():
			w.made = created
		case !w.made.Equal(created):
			return true, errors.New("the stream was made anew, and the event went with the old one")
		}
		w.stream = stream
	}
	cons, err := w.stream.Consumer(ctx, w.durable)
	if err != nil {
		w.stream = nil
		// A durable that was there may be made anew.
		gone := errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
		return !consumer.Transient(err) && (w.from == 0 || !gone), err
	}
	info := cons.CachedInfo()
	if !w.seen.IsZero() && !info.Created.Equal(w.seen) {
		w.stream, w.seen = nil, info.Created
		return w.look(ctx) // the stream may be another one too
	}
	w.seen = info.Created
	if w.from == 0 {
		w.from = min(info.AckFloor.Stream+1, w.receipt.Sequence)
	}
	settled, err := settledUpTo(ctx, w.stream, info, w.receipt.Sequence)
	if err != nil {
		return !consumer.Transient(err), err
	}
	if !settled {
		return false, fmt.Errorf("its ack floor is %d, %d messages are unsettled and %d not handed out yet",
			info.AckFloor.Stream, info.NumAckPending, info.NumPending)
	}
	dead, err := w.deadLetters(ctx, info)
	if err != nil {
		return !consumer.Transient(err), fmt.Errorf("looking for its dead letters: %w", err)
	}
	if len(dead) > 0 {
		return true, &DeadLetterError{Stream: w.receipt.Stream, Durable: w.durable, Sequences: dead}
	}
	return true, nil
}

// settledUpTo reports whether everything up to seq that the durable gets is settled: its ack floor has passed
// seq, or between the two there is nothing that it gets. (What its filter leaves out never moves the floor.)
func settledUpTo(ctx context.Context, stream jetstream.Stream, info *jetstream.ConsumerInfo, seq uint64) (bool, error) {
	if info.AckFloor.Stream >= seq {
		return true, nil
	}
	oldest, err := afterFloor(ctx, stream, info)
	return err == nil && (oldest == nil || oldest.Sequence > seq), err
}

// afterFloor is the first message above the durable's ack floor that it gets: the oldest unsettled one. It is nil
// if there is none.
func afterFloor(ctx context.Context, stream jetstream.Stream, info *jetstream.ConsumerInfo) (first *jetstream.RawStreamMsg, _ error) {
	filters := info.Config.FilterSubjects
	if info.Config.FilterSubject != "" {
		filters = append(filters, info.Config.FilterSubject)
	}
	if len(filters) == 0 {
		filters = []string{">"}
	}
	for _, filter := range filters {
		msg, err := stream.GetMsg(ctx, info.AckFloor.Stream+1, jetstream.WithGetMsgSubject(filter))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return nil, err
		case first == nil || msg.Sequence < first.Sequence:
			first = msg
		}
	}
	return first, nil
}

// deadLetters are the sequences of the messages waited for that became dead letters.
func (w *waiting) deadLetters(ctx context.Context, info *jetstream.ConsumerInfo) ([]uint64, error) {
	prefix := info.Config.Metadata[metaDead]
	if prefix == "" {
		prefix = defaultDeadPrefix
	}
	tree := prefix + "." + w.receipt.Stream + "." + info.Name + ".>"
	name, err := w.js.StreamNameBySubject(ctx, tree)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil // none are kept
	}
	if err != nil {
		return nil, err
	}
	letters, err := w.js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	subjects, err := letters.Info(ctx, jetstream.WithSubjectFilter(tree))
	if err != nil {
		return nil, err
	}
	var dead []uint64
	for subject := range subjects.State.Subjects {
		seq, err := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 10, 64)
		if err == nil && seq >= w.from && seq <= w.receipt.Sequence {
			dead = append(dead, seq)
		}
	}
	slices.Sort(dead)
	var mine []uint64
	for _, seq := range dead {
		letter, err := letters.GetLastMsgForSubject(ctx, deadSubject(prefix, w.receipt.Stream, info.Name, seq))
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, err
		}
		if err == nil {
			stored, err := time.Parse(time.RFC3339Nano, letter.Header.Get(DeadStored))
			if err == nil && stored.Before(w.made) {
				continue // of a stream of that name that is gone
			}
		}
		if mine = append(mine, seq); len(mine) == maxNamed {
			break
		}
	}
	return mine, nil
}
