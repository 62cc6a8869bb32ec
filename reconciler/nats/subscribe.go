package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// startBound is how long Start waits for a server that cannot be reached. It is longer than most
// servers take to restart and shorter than what a stuck roll-out is noticed by.
const startBound = 30 * time.Second

// Subscriber subscribes to core-NATS subjects. A *nats.Conn of nats.go is one.
//
// Three methods of a *nats.Conn are used if the Subscriber has them as well: FlushWithContext, without
// which Start cannot wait for the server; IsClosed; and LastError, without which Start does not notice a
// missing permission.
type Subscriber interface {
	Subscribe(subject string, handler natsgo.MsgHandler) (*natsgo.Subscription, error)
	QueueSubscribe(subject, queue string, handler natsgo.MsgHandler) (*natsgo.Subscription, error)
}

type subscriptions []*natsgo.Subscription

// unsubscribe ends all of them. It has nothing to report: that the connection is closed or the
// subscription gone already is as good.
func (subs subscriptions) unsubscribe() {
	for _, sub := range subs {
		_ = sub.Unsubscribe()
	}
}

// subscribe subscribes to every subject and waits, for at most the bound, until the server knows of it.
// An empty group is none. When it fails, nothing stays subscribed.
func subscribe(
	ctx context.Context, conn Subscriber, subjects []string, group string, bound time.Duration,
	handler natsgo.MsgHandler,
) (subs subscriptions, err error) {
	defer func() {
		if err != nil {
			subs.unsubscribe()
			subs = nil
		}
	}()
	before := lastError(conn)
	for _, subject := range subjects {
		var sub *natsgo.Subscription
		if group == "" {
			sub, err = conn.Subscribe(subject, handler)
		} else {
			sub, err = conn.QueueSubscribe(subject, group, handler)
		}
		if err != nil {
			return subs, fmt.Errorf("subscribing to %q%s: %w", subject, inGroup(group), err)
		}
		subs = append(subs, sub)
	}
	if err := flush(ctx, conn, bound); err != nil {
		return subs, err
	}
	// The server refuses a subscription before it answers the flush.
	after := lastError(conn)
	if after == nil || !errors.Is(after, natsgo.ErrPermissionViolation) || after == before { //nolint:errorlint // the very same error
		return subs, nil
	}
	for _, subject := range subjects {
		if strings.Contains(after.Error(), `"`+subject+`"`) {
			return subs, fmt.Errorf("subscribing to %q%s; allow the connection's user to: %w",
				subject, inGroup(group), after)
		}
	}
	return subs, nil
}

func inGroup(group string) string {
	if group == "" {
		return ""
	}
	return fmt.Sprintf(" in queue group %q", group)
}

// flush waits until the server has seen all that conn sent. nats.go ends a flush with an error when
// the connection is lost meanwhile, and may lose one without an error while it reconnects: flush tries
// again in both cases.
func flush(ctx context.Context, conn Subscriber, bound time.Duration) error {
	const (
		patience = 2 * time.Second // for one try
		pause    = 50 * time.Millisecond
	)
	flusher, ok := conn.(interface {
		FlushWithContext(ctx context.Context) error
	})
	if !ok {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for {
		try, cancel := context.WithTimeout(bounded, patience)
		err := flusher.FlushWithContext(try)
		cancel()
		switch {
		case err == nil:
			return nil
		case closed(conn):
			return fmt.Errorf("waiting for the NATS server: %w", natsgo.ErrConnectionClosed)
		}
		select {
		case <-time.After(pause):
		case <-bounded.Done():
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for the NATS server: %w", context.Cause(ctx))
		case bounded.Err() != nil:
			return fmt.Errorf("the NATS server did not answer for %s; is it running and reachable? (last: %w)",
				bound, err)
		}
	}
}

func closed(conn Subscriber) bool {
	c, ok := conn.(interface{ IsClosed() bool })
	return ok && c.IsClosed()
}

func lastError(conn Subscriber) error {
	if c, ok := conn.(interface{ LastError() error }); ok {
		return c.LastError()
	}
	return nil
}
