//go:build unix

package chaos

import "sync"

// gate holds writers back while it is shut. The zero gate is open.
type gate struct {
	mu     sync.Mutex
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

// pass waits until the gate is open and reports whether it is; not if done was closed first.
func (g *gate) pass(done <-chan struct{}) bool {
	for {
		g.mu.Lock()
		wait := g.opened
		g.mu.Unlock()
		if wait == nil {
			return true
		}
		select {
		case <-wait:
		case <-done:
			return false
		}
	}
}
