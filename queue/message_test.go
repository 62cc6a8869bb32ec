package queue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/levelstream/jsource/queue"
)

var errBroken = errors.New("broken")

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// msg is a message that remembers what it was told.
type msg struct {
	queue.Entry[string]
	name string

	mu    sync.Mutex
	calls []string
}

func (m *msg) Settled(buried bool) {
	if buried {
		m.called("settled, buried")
		return
	}
	m.called("settled")
}

func (m *msg) Superseded(by queue.Message[string]) {
	newer, ok := by.(*msg)
	if !ok {
		m.called(fmt.Sprintf("superseded by %v", by))
		return
	}
	m.called("superseded by " + newer.name)
}

func (m *msg) Died(req string, d queue.Death) {
	m.called(died(req, d.Err, d.Attempts, d.Terminal))
}

func died(req string, err error, attempts int, terminal bool) string {
	return fmt.Sprintf("%s died: %v, failed attempts %d, terminal %t", req, err, attempts, terminal)
}

func (m *msg) called(call string) {
	m.mu.Lock()
	m.calls = append(m.calls, call)
	m.mu.Unlock()
}

// told returns what m was told since it was last asked.
func (m *msg) told() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := m.calls
	m.calls = nil
	return calls
}

// expect checks what m was told since it was last asked.
func (m *msg) expect(tb failer, want ...string) {
	tb.Helper()
	if got := m.told(); !slices.Equal(got, want) {
		tb.Fatalf("message %s was told %q, want %q", m.name, got, want)
	}
}

// register adds a message of this name to the group.
func register(g *queue.Group[string], name string, reqs ...string) *msg {
	m := &msg{name: name}
	g.Register(&m.Entry, m, reqs)
	return m
}

// attempt runs one whole attempt.
func attempt(t *queue.Tracker[string], req string, o queue.Outcome, err error) {
	a := t.Begin(req)
	a.End(o, err)
}

func equal[T comparable](tb failer, what string, got, want T) {
	tb.Helper()
	if got != want {
		tb.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// exits is a reconcile function that ends its goroutine, as t.FailNow does.
func exits(context.Context, string) (int, error) {
	runtime.Goexit()
	return 0, nil
}
