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
// became dead letters, and an error if the durable or the stream does not exist, or ctx ends first.
//
// conn must be allowed to ask for the durable and to read the stream.
func WaitReconciled(ctx context.Context, conn *natsgo.Conn, durable string, r Receipt) error {
	js, err := jetstream.New(conn)
	if err == nil {
		err = waitReconciled(ctx, js, durable, r)
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
	stream, err := js.Stream(ctx, r.Stream)
	if err != nil {
		return err
	}
	var (
		from uint64
		last error
	)
	for wait, first := waitFirst, true; ; wait, first = min(2*wait, waitMost), false {
		var cons jetstream.Consumer
		cons, err = stream.Consumer(ctx, durable)
		switch {
		case err == nil:
			info := cons.CachedInfo()
			if first {
				from = min(info.AckFloor.Stream+1, r.Sequence)
			}
			settled, err := settledUpTo(ctx, stream, info, r.Sequence)
			if settled {
				return deadLetters(ctx, js, info, r.Stream, from, r.Sequence)
			}
			last = fmt.Errorf("its ack floor is %d, %d messages are unsettled and %d not handed out yet",
				info.AckFloor.Stream, info.NumAckPending, info.NumPending)
			if err != nil {
				last = err
			}
		case first && errors.Is(err, jetstream.ErrConsumerNotFound):
			return err
		default:
			last = err // it may be made anew, or have no leader for the moment
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

// settledUpTo reports whether everything up to seq that the durable gets is settled: its ack floor has passed
// seq, or between the two there is nothing that it gets. (What its filter leaves out never moves the floor.)
func settledUpTo(ctx context.Context, stream jetstream.Stream, info *jetstream.ConsumerInfo, seq uint64) (bool, error) {
	floor := info.AckFloor.Stream
	if floor >= seq {
		return true, nil
	}
	filters := info.Config.FilterSubjects
	if info.Config.FilterSubject != "" {
		filters = append(filters, info.Config.FilterSubject)
	}
	if len(filters) == 0 {
		filters = []string{">"}
	}
	for _, filter := range filters {
		msg, err := stream.GetMsg(ctx, floor+1, jetstream.WithGetMsgSubject(filter))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return false, err
		case msg.Sequence <= seq:
			return false, nil
		}
	}
	return true, nil
}

// deadLetters returns an error if a message between from and to became a dead letter of the durable.
func deadLetters(ctx context.Context, js jetstream.JetStream, info *jetstream.ConsumerInfo, stream string, from, to uint64) error {
	prefix := info.Config.Metadata[metaDead]
	if prefix == "" {
		prefix = defaultDeadPrefix
	}
	name, err := js.StreamNameBySubject(ctx, prefix+"."+stream+"."+info.Name+".>")
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // none are kept
	}
	var letters jetstream.Stream
	if err == nil {
		letters, err = js.Stream(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("looking for its dead letters: %w", err)
	}
	subjects, err := letters.Info(ctx, jetstream.WithSubjectFilter(prefix+"."+stream+"."+info.Name+".>"))
	if err != nil {
		return fmt.Errorf("looking for its dead letters: %w", err)
	}
	found := &DeadLetterError{Stream: stream, Durable: info.Name}
	for subject := range subjects.State.Subjects {
		seq, err := strconv.ParseUint(subject[strings.LastIndexByte(subject, '.')+1:], 10, 64)
		if err == nil && seq >= from && seq <= to && len(found.Sequences) < maxNamed {
			found.Sequences = append(found.Sequences, seq)
		}
	}
	if len(found.Sequences) == 0 {
		return nil
	}
	slices.Sort(found.Sequences)
	return found
}
