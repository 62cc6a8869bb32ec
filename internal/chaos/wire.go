//go:build unix

package chaos

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// direction is one of the two ways that bytes take.
type direction int

const (
	up   direction = iota // from the client to the server
	down                  // from the server to the client
)

// tap is told of every message on a wire. For one connection and direction it is called in order.
type tap interface {
	// sent is a message of the client, on its connection of that number: called as soon as it has left
	// the client, however long it is held back afterwards.
	sent(link int, at time.Duration, m message)
	// passed is the same message, right before it is let through to the server.
	passed(at time.Duration, m message)
	// handed is a message to the client: called right before it is let through.
	handed(link int, at time.Duration, m message)
}

// wire is a TCP proxy between one client and the servers. It differs from a natstest.Proxy in what a
// history needs: the client's messages are read, and their time taken, also while they are held back; they
// carry the number of their connection; and the server's messages are seen too.
type wire struct {
	listener net.Listener
	target   func() string // where the next connection goes
	tap      tap           // nil: nobody listens
	gates    [2]gate
	running  sync.WaitGroup
	closed   chan struct{}

	lag atomic.Int64 // how long each piece takes, nanoseconds

	mu     sync.Mutex
	refuse bool
	made   int
	links  map[*link]struct{}
}

// link is one connection of the client and its counterpart at the server.
type link struct {
	number         int
	client, server net.Conn
	once           sync.Once
	done           chan struct{}
}

// newWire listens on a port of its own until cleanup.
func newWire(tb testing.TB, target func() string, t tap) *wire {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("a wire cannot listen: %v", err)
	}
	w := &wire{listener: listener, target: target, tap: t, closed: make(chan struct{}), links: map[*link]struct{}{}}
	w.running.Go(w.accept)
	tb.Cleanup(w.close)
	return w
}

// url is where the client connects to.
func (w *wire) url() string { return "nats://" + w.listener.Addr().String() }

// stall holds back the bytes of one direction; connections stay open.
func (w *wire) stall(d direction) { w.gates[d].shut() }

// resume lets them flow again, those held back first.
func (w *wire) resume(d direction) { w.gates[d].open() }

// setLag makes the bytes take so long, each way.
func (w *wire) setLag(d time.Duration) { w.lag.Store(int64(d)) }

// cut closes all connections; what is held back is lost.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		l.cut()
	}
}

// setRefuse closes every new connection at once, or no longer.
func (w *wire) setRefuse(refuse bool) {
	w.mu.Lock()
	w.refuse = refuse
	w.mu.Unlock()
}

// retire stops listening: the client is gone. What it has sent still passes.
func (w *wire) retire() { _ = w.listener.Close() }

// close ends everything at once.
func (w *wire) close() {
	w.retire()
	w.mu.Lock()
	select {
	case <-w.closed:
	default:
		close(w.closed)
	}
	w.mu.Unlock()
	w.cut()
	w.running.Wait()
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.running.Go(func() { w.serve(client) })
	}
}

// serve connects one client through and returns when both sides are closed.
func (w *wire) serve(client net.Conn) {
	defer client.Close()
	w.mu.Lock()
	w.made++
	l := &link{number: w.made, client: client, done: make(chan struct{})}
	refuse := w.refuse
	w.mu.Unlock()
	if refuse {
		return
	}
	server, err := net.DialTimeout("tcp", w.target(), 2*time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	l.server = server
	w.mu.Lock()
	select {
	case <-w.closed:
		refuse = true
	default:
		refuse = w.refuse
		w.links[l] = struct{}{}
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.links, l)
		w.mu.Unlock()
	}()
	if refuse {
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { w.pump(l, up) })
	pumps.Go(func() { w.pump(l, down) })
	pumps.Wait()
}

func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		l.client.Close()
		if l.server != nil {
			l.server.Close()
		}
	})
}

// tapped returns a function that is to see all the bytes of one direction and calls see for each message.
func tapped(see func(at time.Duration, m message)) func([]byte) {
	var p parser
	return func(b []byte) {
		at := now()
		p.feed(b, func(m message) { see(at, m) })
	}
}

// pump moves the bytes of one direction. The first side to end ends the link, but not before what it had
// sent has passed.
func (w *wire) pump(l *link, d direction) {
	src, dst := l.client, l.server
	if d == down {
		src, dst = l.server, l.client
	}
	read := func([]byte) {}
	write := read
	if w.tap != nil && d == up {
		read = tapped(func(at time.Duration, m message) { w.tap.sent(l.number, at, m) })
		write = tapped(w.tap.passed)
	} else if w.tap != nil {
		write = tapped(func(at time.Duration, m message) { w.tap.handed(l.number, at, m) })
	}
	q := newBytesQueue()
	var reader sync.WaitGroup
	reader.Go(func() {
		defer q.close()
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			read(buf[:n])
			q.put(buf[:n])
			if err != nil {
				return
			}
		}
	})
	var b []byte
	for q.wait() && w.gates[d].pass(l.done) {
		if lag := time.Duration(w.lag.Load()); lag > 0 {
			time.Sleep(lag)
		}
		b = q.take(b)
		write(b)
		if _, err := dst.Write(b); err != nil {
			break
		}
	}
	l.cut()
	reader.Wait()
}
