package bench

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// wire is the contender's way to the server: it counts every byte, protocol included, and can be cut. It is
// a dialer for nats.go.
type wire struct {
	in, out       atomic.Int64 // bytes
	reads, writes atomic.Int64 // system calls

	mu    sync.Mutex
	down  bool
	conns map[net.Conn]struct{}
}

var errCut = errors.New("the benchmark has cut the connection")

func newWire() *wire { return &wire{conns: map[net.Conn]struct{}{}} }

// Dial implements nats.go's CustomDialer.
func (w *wire) Dial(network, address string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, errCut
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.conns[conn] = struct{}{}
	return &wired{Conn: conn, wire: w}, nil
}

// cut breaks every connection, and lets no new one come about for the length of an outage.
func (w *wire) cut(ctx context.Context) {
	w.mu.Lock()
	w.down = true
	for conn := range w.conns {
		conn.Close()
	}
	clear(w.conns)
	w.mu.Unlock()
	wait(ctx, outage)
	w.mu.Lock()
	w.down = false
	w.mu.Unlock()
}

// wired is one connection of a wire.
type wired struct {
	net.Conn
	wire *wire
}

// Read counts what it reads.
func (c *wired) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wire.in.Add(int64(n))
	c.wire.reads.Add(1)
	return n, err
}

// Write counts what it writes.
func (c *wired) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.wire.out.Add(int64(n))
	c.wire.writes.Add(1)
	return n, err
}

// Close closes the connection.
func (c *wired) Close() error {
	c.wire.mu.Lock()
	delete(c.wire.conns, c.Conn)
	c.wire.mu.Unlock()
	return c.Conn.Close()
}
