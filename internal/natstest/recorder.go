package natstest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder keeps what a witness saw, in order, and wakes who waits for more.
type recorder[T fmt.Stringer] struct {
	what string // for failed tests

	mu      sync.Mutex
	seen    []T
	changed chan struct{} // closed and replaced with every entry; nil while nobody waits
}

func (r *recorder[T]) add(entry T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, entry)
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// all is a copy, the caller's own.
func (r *recorder[T]) all() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// soFar is what was seen, to be read only, and a channel that is closed when there is more. Entries
// never change, so nothing needs copying: thousands of them may be looked at after each new one.
func (r *recorder[T]) soFar() ([]T, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return slices.Clip(r.seen), r.changed
}

// waitFor blocks until cond holds of all entries, and fails the test with a list of them if it does
// not within Patience. cond only reads.
func (r *recorder[T]) waitFor(tb testing.TB, what string, cond func([]T) bool) {
	tb.Helper()
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	for {
		seen, changed := r.soFar()
		if cond(seen) {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			tb.Fatalf("not within %v: %s: of %s, %s", Patience, what, r.what, report(seen))
		}
	}
}

// report lists entries, the last of them if there are many.
func report[T fmt.Stringer](seen []T) string {
	const most = 50
	var b strings.Builder
	fmt.Fprintf(&b, "%d seen", len(seen))
	for _, entry := range seen[max(0, len(seen)-most):] {
		b.WriteString("\n\t" + entry.String())
	}
	return b.String()
}
