package reconciler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
)

type result = reconciler.Result

var errBroken = errors.New("broken")

// sourceFunc is a source that is one function.
type sourceFunc func(ctx context.Context, out chan<- string) error

func (f sourceFunc) Start(ctx context.Context, out chan<- string) error { return f(ctx, out) }

// events pushes these before its Start returns.
func events(reqs ...string) sourceFunc {
	return func(ctx context.Context, out chan<- string) error {
		for _, req := range reqs {
			push(ctx, out, req)
		}
		time.Sleep(time.Nanosecond) // in a bubble: until the last one is queued
		return nil
	}
}

// resyncs does the same as a list would.
func resyncs(reqs ...string) sourceFunc {
	return func(ctx context.Context, out chan<- string) error {
		h, _ := reconciler.FromContext(ctx)
		h.MarkResync()
		return events(reqs...)(ctx, out)
	}
}

func push(ctx context.Context, out chan<- string, req string) {
	select {
	case out <- req:
	case <-ctx.Done():
	}
}

// feed is a source that pushes whatever a test sends to it.
type feed chan string

func (f feed) Start(ctx context.Context, out chan<- string) error {
	go func() {
		for {
			select {
			case req := <-f:
				push(ctx, out, req)
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// tracked is a durable source: whatever a test sends to it is a message that owes its requests.
type tracked struct {
	queue.GroupOptions
	messages chan *message
}

func newTracked(o queue.GroupOptions) *tracked {
	return &tracked{GroupOptions: o, messages: make(chan *message)}
}

func (s *tracked) Start(ctx context.Context, out chan<- string) error {
	group := reconciler.TrackerFrom[string](ctx).NewGroup(s.GroupOptions)
	h, _ := reconciler.FromContext(ctx)
	h.OnStop(func(context.Context) error {
		group.Stop()
		return nil
	})
	go func() {
		for {
			select {
			case m := <-s.messages:
				group.Register(&m.Entry, m, m.owes)
				for _, req := range m.owes {
					push(ctx, out, req)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// owed pushes a message that owes these before its Start returns.
func owed(o queue.GroupOptions, m *message) sourceFunc {
	return func(ctx context.Context, out chan<- string) error {
		group := reconciler.TrackerFrom[string](ctx).NewGroup(o)
		group.Register(&m.Entry, m, m.owes)
		return events(m.owes...)(ctx, out)
	}
}

// send sends a message that owes these to the source.
func (s *tracked) send(reqs ...string) *message {
	m := &message{owes: reqs}
	s.messages <- m
	return m
}

// later sends it as soon as the source has started.
func (s *tracked) later(reqs ...string) *message {
	m := &message{owes: reqs}
	go func() { s.messages <- m }()
	return m
}

// message counts its verdicts.
type message struct {
	queue.Entry[string]
	owes []string

	mu            sync.Mutex
	settled, dead int
}

func (m *message) Settled(bool) {
	m.mu.Lock()
	m.settled++
	m.mu.Unlock()
}

func (m *message) Superseded(queue.Message[string]) {}

func (m *message) Died(req string, _ queue.Death) {
	m.mu.Lock()
	m.dead++
	m.mu.Unlock()
	m.Buried(req)
}

// verdict is how often m was settled, and how many of its requests are dead letters.
func (m *message) verdict() [2]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return [2]int{m.settled, m.dead}
}

// build finishes a Controller.
func build(
	t testing.TB, b *reconciler.Builder[string], fn reconciler.Func[string],
) *reconciler.Controller[string] {
	t.Helper()
	c, err := b.Func(fn)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start starts c; what it returns stops it and returns what Start did.
func start(t testing.TB, c *reconciler.Controller[string]) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

// startFails runs c, in a bubble, until it fails to start.
func startFails(t *testing.T, c *reconciler.Controller[string]) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	err := c.Start(ctx)
	equal(t, "Start waited for the end", ctx.Err(), nil)
	return err
}

func stopped(t testing.TB, stop func() error) {
	t.Helper()
	if err := stop(); err != nil {
		t.Fatalf("it did not stop cleanly: %v", err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// logs keeps what is logged.
type logs struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// with returns the lines that have such a message.
func (l *logs) with(t testing.TB, msg string) (found []map[string]any) {
	t.Helper()
	for _, line := range l.all(t) {
		if line["msg"] == msg {
			found = append(found, line)
		}
	}
	return found
}

func (l *logs) all(t testing.TB) (found []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for d := json.NewDecoder(bytes.NewReader(l.lines.Bytes())); d.More(); {
		var line map[string]any
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		found = append(found, line)
	}
	return found
}

// journal is what happened, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
	j.mu.Unlock()
}

// expect checks what happened since it was last asked.
func (j *journal) expect(t testing.TB, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, want) {
		t.Fatalf("what happened: %q, want %q", j.lines, want)
	}
	j.lines = nil
}

// pass lets time pass in a bubble, and everything happen that is to happen meanwhile.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// started runs c until its sources have started.
func started(t *testing.T, b *reconciler.Builder[string]) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		stop := start(t, build(t, b, nothing))
		pass(time.Second)
		stopped(t, stop)
	})
}
