package natstest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
)

// aMoment is how long something that must not happen is waited for.
const aMoment = 50 * time.Millisecond

// pair connects a client through a new proxy and returns both ends.
func pair(t *testing.T) (p *natstest.Proxy, client, server net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, "listen", err)
	t.Cleanup(func() { listener.Close() })
	p = natstest.NewProxy(t, listener.Addr().String())
	client, err = net.Dial("tcp", p.Addr())
	check(t, "dial", err)
	t.Cleanup(func() { client.Close() })
	server, err = listener.Accept()
	check(t, "accept", err)
	t.Cleanup(func() { server.Close() })
	natstest.Until(t, "the connection goes through", natstest.Patience, func() bool { return p.Conns() == 1 })
	return p, client, server
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := conn.Write([]byte(text))
	check(t, "write", err)
}

func expect(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	check(t, "deadline", conn.SetReadDeadline(time.Now().Add(natstest.Patience)))
	got := make([]byte, len(want))
	_, err := io.ReadFull(conn, got)
	check(t, "read", err)
	if string(got) != want {
		t.Fatalf("read %q, want %q", got, want)
	}
}

func expectNothing(t *testing.T, conn net.Conn) {
	t.Helper()
	check(t, "deadline", conn.SetReadDeadline(time.Now().Add(aMoment)))
	var b [1]byte
	if _, err := conn.Read(b[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %q, %v; want nothing to arrive", b, err)
	}
}

func expectEnd(t *testing.T, conn net.Conn) {
	t.Helper()
	check(t, "deadline", conn.SetReadDeadline(time.Now().Add(natstest.Patience)))
	var b [1]byte
	if _, err := conn.Read(b[:]); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %q, %v; want the connection closed", b, err)
	}
}

func TestStallHoldsOneDirectionAndResumeReleasesIt(t *testing.T) {
	p, client, server := pair(t)
	for _, way := range []struct {
		stalled  natstest.Direction
		from, to net.Conn
	}{
		{natstest.ClientToServer, client, server},
		{natstest.ServerToClient, server, client},
	} {
		p.Stall(way.stalled)
		p.Stall(way.stalled) // does nothing
		send(t, way.from, "held ")
		send(t, way.from, "back")
		expectNothing(t, way.to)
		send(t, way.to, "the other way is open")
		expect(t, way.from, "the other way is open")
		p.Resume(way.stalled)
		p.Resume(way.stalled) // does nothing
		expect(t, way.to, "held back")
	}
}

func TestCutLosesWhatWasHeld(t *testing.T) {
	p, client, server := pair(t)
	send(t, client, "before")
	expect(t, server, "before")
	p.Stall(natstest.ClientToServer)
	send(t, client, "lost")
	p.Cut()
	if n := p.Conns(); n != 0 {
		t.Errorf("%d connections after Cut", n)
	}
	p.Resume(natstest.ClientToServer)
	expectEnd(t, client)
	expectEnd(t, server)
}

func TestEndOfOneSideReachesTheOther(t *testing.T) {
	_, client, server := pair(t)
	send(t, client, "last words")
	client.Close()
	expect(t, server, "last words")
	expectEnd(t, server)
}

func TestRefuseTurnsNewConnectionsAway(t *testing.T) {
	p, client, server := pair(t)
	p.Refuse(true)
	late, err := net.Dial("tcp", p.Addr())
	check(t, "dial", err)
	defer late.Close()
	expectEnd(t, late)
	send(t, client, "still here")
	expect(t, server, "still here")
}

func TestClosedProxyLeavesNothing(t *testing.T) {
	p, client, _ := pair(t)
	p.Stall(natstest.ServerToClient)
	p.Close()
	p.Close() // does nothing
	expectEnd(t, client)
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		conn.Close()
		t.Error("a closed proxy accepts connections")
	}
}

// behindProxy is a client whose every byte passes a proxy in front of srv.
func behindProxy(t *testing.T, srv *natstest.Server) (*natstest.Proxy, jetstream.JetStream) {
	t.Helper()
	p := natstest.NewProxy(t, srv.URL())
	js, err := jetstream.New(natstest.Connect(t, p.URL()))
	check(t, "jetstream", err)
	return p, js
}

func TestClientReconnectsAfterCutOutageAndServerRestart(t *testing.T) {
	srv := natstest.Start(t)
	provision(t, srv.JetStream(), 1)
	p, js := behindProxy(t, srv)
	conn := js.Conn()
	back := func() {
		t.Helper()
		natstest.WaitConnected(t, conn)
		publish(t, js, "orders.created")
	}

	publish(t, js, "orders.created")
	p.Cut()
	back()

	p.Refuse(true)
	p.Cut()
	natstest.Until(t, "client is out", natstest.Patience, conn.IsReconnecting)
	p.Refuse(false)
	back()

	srv.Restart()
	back()

	other := natstest.Start(t)
	provision(t, other.JetStream(), 1)
	p.Retarget(other.URL())
	p.Cut()
	back()
	stream, err := other.JetStream().Stream(deadline(t), "ORDERS")
	check(t, "stream", err)
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d messages where the proxy was retargeted to, want 1", n)
	}
}

// What a stalled answer is for: the server has the ack, the client does not know.
func TestConfirmationHeldBack(t *testing.T) {
	srv := natstest.Start(t)
	provision(t, srv.JetStream(), 1)
	witness := natstest.Watch(t, srv.Conn(), "ORDERS", "worker")
	p, js := behindProxy(t, srv)
	c, err := js.Consumer(deadline(t), "ORDERS", "worker")
	check(t, "consumer", err)
	publish(t, js, "orders.created")
	publish(t, js, "orders.created")

	msg := next(t, c)
	p.Stall(natstest.ServerToClient)
	confirmed := make(chan error, 1)
	go func() { confirmed <- msg.DoubleAck(deadline(t)) }()
	witness.WaitFor(t, "the ack", func(s []natstest.Settlement) bool { return len(s) == 1 })
	select {
	case err := <-confirmed:
		t.Fatalf("confirmed through a stalled proxy: %v", err)
	case <-time.After(aMoment):
	}
	p.Resume(natstest.ServerToClient)
	check(t, "ack", <-confirmed)

	msg = next(t, c)
	p.Stall(natstest.ClientToServer)
	ctx, cancel := context.WithTimeout(deadline(t), aMoment)
	defer cancel()
	if err := msg.DoubleAck(ctx); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) {
		t.Fatalf("ack through a stalled proxy: %v, want a timeout", err)
	}
	witness.Sync(t)
	if got := witness.Of(2); len(got) != 0 {
		t.Errorf("the server got %v through a stalled proxy", got)
	}
	p.Resume(natstest.ClientToServer)
	witness.WaitFor(t, "the second ack", func(s []natstest.Settlement) bool { return len(s) == 2 })
	natstest.WaitSettled(t, srv.JetStream(), "ORDERS", "worker")
}
