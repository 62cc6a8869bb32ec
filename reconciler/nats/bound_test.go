package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	natsgo "github.com/nats-io/nats.go"
)

// silentConn has a server that never answers.
type silentConn struct{ tries int }

func (*silentConn) Subscribe(string, natsgo.MsgHandler) (*natsgo.Subscription, error) {
	return &natsgo.Subscription{}, nil
}

func (*silentConn) QueueSubscribe(string, string, natsgo.MsgHandler) (*natsgo.Subscription, error) {
	return &natsgo.Subscription{}, nil
}

func (c *silentConn) FlushWithContext(ctx context.Context) error {
	c.tries++
	if c.tries%2 == 0 {
		return natsgo.ErrConnectionClosed // what nats.go says when it lost the connection meanwhile
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestStartWaitsNoLongerThanItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		conn := &silentConn{}
		err := Subject(conn, NewTopic[string, int]("a")).Start(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), "did not answer for 30s") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != startBound {
			t.Errorf("took %s", took)
		}
		if conn.tries < 10 {
			t.Errorf("tried %d times only", conn.tries)
		}
	})
}

func TestStartReportsTheContextsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("the process is told to stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		if err := Subject(&silentConn{}, NewTopic[string, int]("a")).Start(ctx, nil); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	})
}

// grudgingConn was refused a subscription once. Its server answers.
type grudgingConn struct {
	silentConn
	refused error
}

func (*grudgingConn) FlushWithContext(context.Context) error { return nil }
func (c *grudgingConn) LastError() error                     { return c.refused }

// A connection keeps its last error for ever. One that is older than the subscription says nothing of it:
// the permission may have been given meanwhile.
func TestStartForgetsWhatWasRefusedEarlier(t *testing.T) {
	conn := &grudgingConn{
		refused: fmt.Errorf(`%w: Permissions Violation for Subscription to "a.>"`, natsgo.ErrPermissionViolation),
	}
	if err := Subject(conn, NewTopic[string, int]("a")).Start(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
