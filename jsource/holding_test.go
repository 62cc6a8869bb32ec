package jsource_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// L3, case 27: one failing key does not hold up a hundred good ones, and Status says which it is, since when
// and why.
func TestStatusNamesWhatHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := time.Now()
	m := w.join(workers(4), doing(always("bad", ending{err: errTest})))
	bad := w.publish("bad", "bad")
	keys := numbered("good", 100)
	w.publish(keys...)
	m.waitDone(t, keys...)
	w.left(2, 0)
	m.owed("bad", 2)
	for _, r := range bad {
		w.expectSaid(r.Sequence, "")
	}
	status := m.source.Status(10)
	if status.Held != 2 || status.Reconciled != 100 || status.Longest <= 0 || status.Err != nil ||
		status.Stream != widgetStream || status.Durable != widgetDurable {
		t.Errorf("status %+v", status)
	}
	if len(status.Holding) != 1 {
		t.Fatalf("held by %+v", status.Holding)
	}
	h := status.Holding[0]
	if h.Request != "bad" || h.Messages != 2 || h.Attempts == 0 || !errors.Is(h.LastErr, errTest) ||
		h.Since.Before(before) || h.Since.After(time.Now()) {
		t.Errorf("held by %+v", h)
	}
	delete(m.begun(), "bad")
	for _, key := range keys {
		if n := m.begun()[key]; n != 1 {
			t.Errorf("%d attempts on %s", n, key)
		}
	}
}

// Status names those that have held messages longest, no more than are asked for, and says what runs.
func TestStatusNamesTheOldestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(holding("a", "b", "c"), workers(1))
	for _, key := range []string{"a", "b", "c"} {
		w.publish(key)
		m.owed(key, 1)
	}
	h := m.source.Status(2).Holding
	if len(h) != 2 || h[0].Request != "a" || h[1].Request != "b" || !h[0].Running || h[1].Running {
		t.Errorf("held by %+v", h)
	}
	m.release("a", "b", "c")
}

// L3: near MaxAckPending, at 80 percent, the log names the requests that hold it; once, not again and again.
func TestLogNamesWhatHoldsNearMaxAckPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lines := w.keepLog()
	const says = "unsettled messages near MaxAckPending"
	m := w.join(withSource(func(s *widgetSource) { s.MaxAckPending(10).AckWait(short) }), workers(2),
		doing(always("bad", ending{err: errTest})))
	w.publish("bad", "bad", "bad", "bad", "bad", "bad", "bad")
	m.owed("bad", 7)
	m.looked()
	if found := lines.with(says); len(found) != 0 {
		t.Errorf("at 70 percent: %q", found)
	}
	w.publish("bad")
	line := lines.waitFor(t, says, "held=8", "max=10", "bad (8 messages for", "failed attempts", "out of stock")
	if !strings.Contains(line, "level=WARN") {
		t.Errorf("logged as %s", line)
	}
	m.looked()
	if n := len(lines.with(says)); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
}

// looked returns when the source has looked after its engine twice more: it does four times in an AckWait,
// which its heartbeats, three times in it, stand for.
func (m *member) looked() {
	m.tb.Helper()
	was := m.source.Status(0).Counts.Heartbeats
	held := uint64(max(m.source.Status(0).Held, 1))
	natstest.Until(m.tb, "three rounds of heartbeats", natstest.Patience, func() bool {
		return m.source.Status(0).Counts.Heartbeats >= was+3*held
	})
}

// tracked is a resource that knows where its JSON lies in memory.
type tracked struct{}

var payloads struct {
	mu   sync.Mutex
	seen []weak.Pointer[byte]
}

func (*tracked) UnmarshalJSON(data []byte) error {
	payloads.mu.Lock()
	defer payloads.mu.Unlock()
	payloads.seen = append(payloads.seen, weak.Make(&data[0]))
	return nil
}

// L2: the payload of a message is dropped when it was mapped, however long the message is held.
func TestPayloadsAreDroppedAfterMapping(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const messages = 20
	src := jsource.Subject(w.srv.Conn(), nats.NewTopic[string, tracked](widgets.Prefix()))
	var last *member
	m := w.join(watchingOnly(reconciler.Source[string](src)), holding("a"))
	last = m
	pad := strings.Repeat("x", 10_000)
	for range messages {
		if _, err := jsource.PublishCreated(t.Context(), w.pub, widgets, "a", widget{Color: pad}); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Until(t, "all are held", natstest.Patience, func() bool {
		h := src.Status(1).Holding
		return len(h) == 1 && h[0].Messages == messages
	})
	natstest.Eventually(t, "their payloads are collected", natstest.Patience, func() error {
		runtime.GC()
		payloads.mu.Lock()
		defer payloads.mu.Unlock()
		if len(payloads.seen) < messages {
			return errors.New("not all were decoded")
		}
		left := 0
		for _, p := range payloads.seen {
			if p.Value() != nil {
				left++
			}
		}
		if left > 0 {
			return errors.New("some are still there")
		}
		return nil
	})
	if n := src.Status(0).Held; n != messages {
		t.Errorf("%d messages are held", n)
	}
	last.release("a")
	w.settled()
}

// Healthy and Status can be asked at any time.
func TestHealthBeforeAndAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	src := jsource.Subject(w.srv.Conn(), widgets)
	asked, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asked)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = src.Healthy(), src.Status(1)
				runtime.Gosched()
			}
		}
	}()
	expectError(t, src.Healthy(), "not started")
	expectError(t, src.Status(1).Err, "not started")
	m := w.join(watchingOnly(reconciler.Source[string](src)))
	if err := src.Healthy(); err != nil {
		t.Error(err)
	}
	m.stop()
	m.wait()
	expectError(t, src.Healthy(), widgetDurable, "stopped")
	close(stop)
	<-asked
	if err := src.Drain(context.Background()); err != nil {
		t.Errorf("Drain afterwards: %v", err)
	}
}
