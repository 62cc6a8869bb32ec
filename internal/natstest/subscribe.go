package natstest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
)

// subscriptions are those of one recorder, which can tell when it is up to date.
type subscriptions struct {
	conn    *nats.Conn
	subs    []*nats.Subscription
	handled []*atomic.Int64 // messages the handler has finished with, one count a subscription
}

// subscribe calls handle for every message on the subjects. The server knows of it on return. handle
// runs concurrently for different subjects.
func subscribe(tb testing.TB, conn *nats.Conn, handle nats.MsgHandler, subjects ...string) *subscriptions {
	tb.Helper()
	s := &subscriptions{conn: conn}
	for _, subject := range subjects {
		handled := new(atomic.Int64)
		sub, err := conn.Subscribe(subject, func(m *nats.Msg) {
			defer handled.Add(1)
			handle(m)
		})
		if err != nil {
			tb.Fatalf("subscribe to %s: %v", subject, err)
		}
		// A witness that drops messages is none.
		if err := sub.SetPendingLimits(-1, -1); err != nil {
			tb.Fatalf("pending limits of %s: %v", subject, err)
		}
		s.subs, s.handled = append(s.subs, sub), append(s.handled, handled)
		tb.Cleanup(func() { _ = sub.Unsubscribe() }) // fails on a connection closed before: as good
	}
	if err := conn.FlushTimeout(Patience); err != nil {
		tb.Fatalf("flush subscriptions to %v: %v", subjects, err)
	}
	return s
}

// sync returns when all that the server had for these subscriptions before the call is handled: the
// flush's answer comes behind it, then the handlers have to catch up.
func (s *subscriptions) sync(tb testing.TB) {
	tb.Helper()
	WaitConnected(tb, s.conn) // which flushes it
	Eventually(tb, "the witness has caught up", Patience, func() error {
		for i, sub := range s.subs {
			pending, _, err := sub.Pending()
			if err != nil {
				return err
			}
			delivered, err := sub.Delivered()
			if err != nil {
				return err
			}
			if handled := s.handled[i].Load(); pending > 0 || handled < delivered {
				return fmt.Errorf("%d pending, %d of %d handled", pending, handled, delivered)
			}
		}
		return nil
	})
}
