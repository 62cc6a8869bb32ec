package natstest

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Direction is one of the two ways bytes take through a [Proxy].
type Direction int

// The directions, named by who sends and who receives.
const (
	ClientToServer Direction = iota
	ServerToClient
)

// Proxy is a TCP proxy on loopback that can misbehave as networks do. It knows nothing of the server
// but its address, so a server restarted on the same port is served again without further ado.
// Methods may be called from any goroutine.
type Proxy struct {
	listener net.Listener
	gates    [2]gate
	taps     *tapSet // nil where the protocol is not a client's
	running  sync.WaitGroup
	aimed    chan struct{} // closed by the first Retarget
	closed   chan struct{}

	mu     sync.Mutex
	target string
	refuse bool
	links  map[*link]struct{}
}

// NewProxy listens on a port of its own and forwards to target, a host:port or a nats:// URL. It is
// closed at cleanup.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p := newProxy(tb, new(tapSet))
	p.Retarget(target)
	return p
}

// newProxy listens; connections wait until the proxy is told its target.
func newProxy(tb testing.TB, taps *tapSet) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		tb.Fatalf("proxy: %v", err)
	}
	p := &Proxy{
		listener: listener,
		taps:     taps,
		aimed:    make(chan struct{}),
		closed:   make(chan struct{}),
		links:    make(map[*link]struct{}),
	}
	p.running.Go(p.accept)
	tb.Cleanup(p.Close)
	return p
}

// Addr is the host and port to connect to instead of the target's.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL is Addr as a NATS client takes it.
func (p *Proxy) URL() string { return "nats://" + p.Addr() }

// Retarget sends connections made from now on to another address.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.target == "" {
		close(p.aimed)
	}
	p.target = strings.TrimPrefix(target, "nats://")
}

// Stall holds back the bytes of one direction: connections stay open and, once Stall has returned,
// nothing more comes out on the other side. What is held is not lost unless the connection is cut.
// New connections are accepted and stalled alike.
func (p *Proxy) Stall(d Direction) { p.gates[d].shut() }

// Resume lets the bytes of a stalled direction flow again, in order, those held back first.
func (p *Proxy) Resume(d Direction) { p.gates[d].open() }

// Cut closes all connections now. What had been forwarded arrives, what was held back is lost. New
// connections are welcome, unless refused.
func (p *Proxy) Cut() {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.cut()
	}
	for _, l := range links {
		<-l.gone
	}
}

// Refuse true closes every new connection at once, before it reaches the target; existing ones are
// left alone. Refuse(true) and then Cut make an outage, Refuse(false) ends it.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = refuse
}

// Conns is the number of connections that go through now.
func (p *Proxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Close cuts everything and returns when no goroutine of the proxy is left. The test's cleanup calls
// it; calling it earlier, or twice, is fine.
func (p *Proxy) Close() {
	p.mu.Lock()
	if !p.isClosed() {
		close(p.closed)
	}
	p.mu.Unlock()
	p.listener.Close()
	p.Cut()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve connects a client through and returns when both sides are closed.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	select {
	case <-p.aimed:
	case <-p.closed:
		return
	}
	p.mu.Lock()
	target, refuse := p.target, p.refuse
	p.mu.Unlock()
	if refuse {
		return
	}
	srv, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		return
	}
	defer srv.Close()
	l := &link{client: client, server: srv, done: make(chan struct{}), gone: make(chan struct{})}
	if !p.admit(l) {
		return
	}
	var t *tap
	if p.taps != nil {
		t = &tap{set: p.taps}
	}
	l.pumps.Go(func() { l.pump(srv, client, &p.gates[ClientToServer], t) })
	l.pumps.Go(func() { l.pump(client, srv, &p.gates[ServerToClient], nil) })
	l.pumps.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
	close(l.gone)
}

// admit makes l known to Cut, unless Refuse or Close came while it was dialing.
func (p *Proxy) admit(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse || p.isClosed() {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// link is one client connection and its counterpart at the server.
type link struct {
	client, server net.Conn
	once           sync.Once
	done           chan struct{} // closed by cut
	gone           chan struct{} // closed when it is forgotten
	pumps          sync.WaitGroup
}

func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		l.client.Close()
		l.server.Close()
	})
}

// pump moves bytes from src to dst while the gate is open. The first side to end ends the link, but
// not before what it had sent has passed the gate.
func (l *link) pump(dst io.Writer, src io.Reader, g *gate, tap *tap) {
	defer l.cut()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 && g.pass(l.done, func() error {
			if tap != nil {
				tap.write(buf[:n])
			}
			_, err := dst.Write(buf[:n])
			return err
		}) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// gate lets writes of one direction through or holds them back.
type gate struct {
	// Held for reading during a write, so that shut returns only when no write is under way.
	mu     sync.RWMutex
	opened chan struct{} // nil while open; closed by open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// pass calls write as soon as the gate is open, or returns an error once done is closed.
func (g *gate) pass(done <-chan struct{}, write func() error) error {
	for {
		g.mu.RLock()
		wait := g.opened
		if wait == nil {
			err := write()
			g.mu.RUnlock()
			return err
		}
		g.mu.RUnlock()
		select {
		case <-wait:
		case <-done:
			return net.ErrClosed
		}
	}
}
