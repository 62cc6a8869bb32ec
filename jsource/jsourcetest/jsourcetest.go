// Package jsourcetest helps to test controllers with durable sources: a real NATS server in the test's process, and
// what is owed, settled and dead on it, as the server says.
//
//	srv := jsourcetest.Start(t)
//	jsourcetest.Run(t, newController(srv.Conn()))
//	receipt, err := jsource.PublishCreated(t.Context(), srv.Publisher(), orders, "o-1", order{})
//	…
//	srv.Reconciled("clerk-shop_orders", receipt)
package jsourcetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
)

// Patience is how long the helpers of this package wait for what has to happen before they fail the test. It bounds a
// failure and delays nothing.
const Patience = natstest.Patience

// Server is a NATS server with JetStream, on loopback, with a store of its own. It ends with the test. Its methods fail the
// test when they cannot do what they say; call them from the test's own goroutine.
type Server struct {
	tb    testing.TB
	srv   *natstest.Server
	js    jetstream.JetStream
	admin *jsource.Admin
	pub   *jsource.Publisher
}

// Start starts a server for the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{tb: tb, srv: natstest.Start(tb)}
	s.js = s.srv.JetStream()
	var err error
	if s.admin, err = jsource.NewAdmin(s.js.Conn()); err == nil {
		s.pub, err = jsource.NewPublisher(s.js.Conn())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// URL is where the server listens.
func (s *Server) URL() string { return s.srv.URL() }

// Conn is a new connection, which is closed when the test ends.
func (s *Server) Conn(opts ...natsgo.Option) *natsgo.Conn {
	s.tb.Helper()
	return s.srv.Conn(opts...)
}

// Publisher publishes to the server, on a connection of its own.
func (s *Server) Publisher() *jsource.Publisher { return s.pub }

// Restart stops the server and starts it again on the same address with the same store: what a controller must outlast.
func (s *Server) Restart() {
	s.tb.Helper()
	s.srv.Restart()
}

// Run runs a controller, or anything else with such a Start, until the test ends, and fails the test if it does not start or
// does not stop cleanly. The function that is returned stops it earlier, and waits.
func Run(tb testing.TB, c interface{ Start(context.Context) error }) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		if err = c.Start(ctx); err != nil && ctx.Err() == nil {
			tb.Errorf("the controller ended: %v", err)
		}
	}()
	stop = func() {
		cancelled := ctx.Err() != nil
		cancel()
		select {
		case <-done:
		case <-time.After(Patience):
			tb.Error("the controller does not stop")
			return
		}
		if err != nil && !cancelled {
			tb.Errorf("the controller did not stop cleanly: %v", err)
		}
	}
	tb.Cleanup(stop)
	return stop
}

// Reconciled waits until durable has settled the event of r and all before it, and fails the test if one of them became a
// dead letter. It waits for the durable too, whose controller may still be starting: a name that no controller uses fails the test
// after [Patience]. See [jsource.Source.Durable] for the name.
func (s *Server) Reconciled(durable string, r jsource.Receipt) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), Patience)
	defer cancel()
	for {
		err := jsource.WaitReconciled(ctx, s.js.Conn(), durable, r)
		if errors.Is(err, jetstream.ErrConsumerNotFound) && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond) // the controller is still starting
			continue
		}
		if err != nil {
			s.tb.Fatal(err)
		}
		return
	}
}

// Settled waits until durable has settled everything in stream, whether it was reconciled or became a dead letter.
func (s *Server) Settled(stream, durable string) {
	s.tb.Helper()
	natstest.WaitSettled(s.tb, s.js, stream, durable)
}

// Owed returns the requests that hold messages of durable now, in the replicas that run, those that have held them longest
// first.
func (s *Server) Owed(stream, durable string) (owed []jsource.Held) {
	s.tb.Helper()
	r, err := s.admin.Report(s.tb.Context(), stream, durable)
	if err != nil {
		s.tb.Fatal(err)
	}
	for _, replica := range r.Replicas {
		owed = append(owed, replica.Holding...)
	}
	return owed
}

// Dead returns the dead letters that are kept now.
func (s *Server) Dead() (letters []*jsource.DeadLetter) {
	s.tb.Helper()
	for l, err := range s.admin.DeadLetters(s.tb.Context(), jsource.LetterFilter{}) {
		if err != nil {
			s.tb.Fatal(err)
		}
		letters = append(letters, l)
	}
	return letters
}

// WaitDead waits until n dead letters are kept, and returns them.
func (s *Server) WaitDead(n int) (letters []*jsource.DeadLetter) {
	s.tb.Helper()
	natstest.Eventually(s.tb, fmt.Sprintf("%d dead letters", n), Patience, func() error {
		if letters = s.Dead(); len(letters) != n {
			return fmt.Errorf("there are %d", len(letters))
		}
		return nil
	})
	return letters
}
