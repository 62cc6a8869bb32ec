package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// link is a controller's way to the NATS server. While it is cut, as a network is that fails, every
// connection through it is dead and no new one comes about; the process lives on. It is a dialer for
// nats.go.
type link struct {
	mu    sync.Mutex
	down  bool
	conns map[*linked]struct{}
}

var errLinkCut = errors.New("the link is cut")

// linked is one connection through a link.
type linked struct {
	net.Conn
	link *link
}

func newLink() *link { return &link{conns: map[*linked]struct{}{}} }

// Dial implements nats.go's CustomDialer.
func (l *link) Dial(network, address string) (net.Conn, error) {
	if l.isDown() {
		return nil, errLinkCut
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down { // meanwhile
		conn.Close()
		return nil, errLinkCut
	}
	c := &linked{Conn: conn, link: l}
	l.conns[c] = struct{}{}
	return c, nil
}

func (l *link) isDown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// Close closes the connection.
func (c *linked) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		c.Conn.Close()
		delete(l.conns, c)
	}
}

func (l *link) mend() {
	l.mu.Lock()
	l.down = false
	l.mu.Unlock()
}
