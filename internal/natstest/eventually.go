package natstest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Patience is how long the helpers of this package wait for what has to happen. It is generous
// because the machine may be slow: it is a bound on failing, never a delay.
const Patience = 90 * time.Second

// Polling starts fine, for conditions about to come true, and grows coarse to leave the CPU to the
// code under test.
const (
	pollFirst = time.Millisecond
	pollLast  = 20 * time.Millisecond
)

// Eventually polls cond until it returns nil and fails the test with what and the last error when
// timeout has passed. Call it from the test's own goroutine.
func Eventually(tb testing.TB, what string, timeout time.Duration, cond func() error) {
	tb.Helper()
	if err := poll(timeout, cond); err != nil {
		tb.Fatalf("not within %v: %s: %v", timeout, what, err)
	}
}

// Until is [Eventually] for a condition that has no more to say than yes or no.
func Until(tb testing.TB, what string, timeout time.Duration, cond func() bool) {
	tb.Helper()
	if err := poll(timeout, func() error {
		if cond() {
			return nil
		}
		return errors.New("still false")
	}); err != nil {
		tb.Fatalf("not within %v: %s: %v", timeout, what, err)
	}
}

// poll returns nil as soon as cond does, else cond's last error.
func poll(timeout time.Duration, cond func() error) error {
	deadline := time.Now().Add(timeout)
	for wait := pollFirst; ; wait = min(2*wait, pollLast) {
		err := cond()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		time.Sleep(wait)
	}
}

// ConsumerInfo asks the server for a consumer's state and fails the test if it does not answer.
func ConsumerInfo(tb testing.TB, js jetstream.JetStream, stream, durable string) *jetstream.ConsumerInfo {
	tb.Helper()
	info, err := consumerInfo(js, stream, durable)
	if err != nil {
		tb.Fatalf("consumer info of %s on %s: %v", durable, stream, err)
	}
	return info
}

// WaitSettled waits until the durable has nothing left: no message pending delivery and none pending
// acknowledgment. Errors on the way (an election, a restart) are waited out as well.
//
// The server confirms a publish a moment before its consumers hear of the message and count it as pending: so
// the last message for the durable must have been handed out too.
func WaitSettled(tb testing.TB, js jetstream.JetStream, stream, durable string) {
	tb.Helper()
	Eventually(tb, fmt.Sprintf("everything on %s settled for %s", stream, durable), Patience, func() error {
		info, err := consumerInfo(js, stream, durable)
		if err != nil {
			return err
		}
		if info.NumPending != 0 || info.NumAckPending != 0 {
			return fmt.Errorf("%d pending, %d unacknowledged, ack floor at %d",
				info.NumPending, info.NumAckPending, info.AckFloor.Stream)
		}
		last, err := lastFor(js, stream, &info.Config)
		if err == nil && info.Delivered.Stream < last {
			err = fmt.Errorf("%d is not handed out, the last that was is %d", last, info.Delivered.Stream)
		}
		return err
	})
}

// lastFor is the sequence of the last message in a stream that a consumer gets, 0 if there is none.
func lastFor(js jetstream.JetStream, stream string, cfg *jetstream.ConsumerConfig) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	filters := cfg.FilterSubjects
	if cfg.FilterSubject != "" || len(filters) == 0 {
		filters = []string{cmp.Or(cfg.FilterSubject, ">")}
	}
	last := uint64(0)
	for _, filter := range filters {
		msg, err := s.GetLastMsgForSubject(ctx, filter)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return 0, err
		default:
			last = max(last, msg.Sequence)
		}
	}
	return last, nil
}

func consumerInfo(js jetstream.JetStream, stream, durable string) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	// Looking a consumer up is one info request: what it caches is fresh.
	c, err := js.Consumer(ctx, stream, durable)
	if err != nil {
		return nil, err
	}
	return c.CachedInfo(), nil
}
