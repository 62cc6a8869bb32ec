package jsource_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// short is an AckWait for tests in which somebody has to wait for it. Heartbeats have to be in time for it even
// on a busy machine.
const short = 500 * time.Millisecond

var errTest = errors.New("out of stock")

// ending is what an attempt returns.
type ending struct {
	res reconciler.Result
	err error
}

var success ending

// script is a Reconciler whose attempts return what they are told to, when they are. Once it is closed, as it
// has to be when the test ends, they succeed.
type script chan ending

// end makes one attempt that runs, or the next, return e.
func (s script) end(tb testing.TB, e ending) {
	tb.Helper()
	select {
	case s <- e:
	case <-time.After(natstest.Patience):
		tb.Fatal("no attempt takes its ending")
	}
}

func (s script) reconcile(ctx context.Context, req string) (reconciler.Result, error) {
	if req == barrier {
		return reconciler.Result{}, nil
	}
	select {
	case e := <-s:
		return e.res, e.err
	case <-ctx.Done():
		return reconciler.Result{}, context.Cause(ctx)
	}
}

// barrier is a request that always succeeds.
const barrier = "barrier"

// caughtUp returns when a message that was published now is settled: whatever was to be said because of attempts
// that had ended before was said earlier. A worker must be free.
func (w *world) caughtUp() {
	w.tb.Helper()
	w.waitSaid(w.publish(barrier)[0].Sequence, "ack of delivery 1")
}

// returning is a Reconciler whose attempts on a request return its endings, one after the other, and then
// succeed.
func returning(endings map[string][]ending) reconciler.Func[string] {
	var mu sync.Mutex
	return func(_ context.Context, req string) (reconciler.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		list := endings[req]
		if len(list) == 0 {
			return reconciler.Result{}, nil
		}
		endings[req] = list[1:]
		if errors.Is(list[0].err, errPanic) {
			panic("a wrong turn")
		}
		return list[0].res, list[0].err
	}
}

// errPanic makes an attempt panic.
var errPanic = errors.New("panic")

// always is a Reconciler that returns e for one request and succeeds on the others.
func always(req string, e ending) reconciler.Func[string] {
	return func(_ context.Context, r string) (reconciler.Result, error) {
		if r == req {
			return e.res, e.err
		}
		return reconciler.Result{}, nil
	}
}

// split maps an event to the parts of its key: "a+b" to a and b, "" to nothing.
func split(_ context.Context, e nats.Event[string, widget]) []string {
	if e.Key == "" {
		return nil
	}
	return strings.Split(e.Key, "+")
}

// mappedBy is a member's source with a mapper of its own, changed by change.
func mappedBy(conn *natsgo.Conn, m nats.Mapper[string, widget, string], change func(*widgetSource)) memberOf {
	return func(s *settings) {
		src := jsource.Mapped(conn, widgets, m)
		if change != nil {
			change(src)
		}
		s.member.source, s.sources = src, []reconciler.Source[string]{src}
	}
}

// tryMappedBy is mappedBy with a mapper that can fail.
func tryMappedBy(conn *natsgo.Conn, m func(context.Context, nats.Event[string, widget]) ([]string, error),
	change func(*widgetSource),
) memberOf {
	return func(s *settings) {
		src := jsource.TryMapped(conn, widgets, m)
		if change != nil {
			change(src)
		}
		s.member.source, s.sources = src, []reconciler.Source[string]{src}
	}
}

// owed waits until n messages owe req, as the source says.
func (m *member) owed(req string, n int) {
	m.tb.Helper()
	natstest.Eventually(m.tb, fmt.Sprintf("%d messages owe %s", n, req), natstest.Patience, func() error {
		holding := m.source.Status(100).Holding
		for _, h := range holding {
			if h.Request == req && h.Messages == n {
				return nil
			}
		}
		return fmt.Errorf("held by %+v", holding)
	})
}

// left waits until so many messages are unsettled and so many are not handed out.
func (w *world) left(unsettled int, pending uint64) {
	w.tb.Helper()
	what := fmt.Sprintf("%d messages are unsettled and %d not handed out", unsettled, pending)
	natstest.Eventually(w.tb, what, natstest.Patience, func() error {
		if info := w.info(); info.NumAckPending != unsettled || info.NumPending != pending {
			return fmt.Errorf("%d and %d", info.NumAckPending, info.NumPending)
		}
		return nil
	})
}

// waitSaid waits until the witness saw want of one message, heartbeats left out, and nothing else.
func (w *world) waitSaid(seq uint64, want string) {
	w.tb.Helper()
	natstest.Eventually(w.tb, fmt.Sprintf("%q is said of sequence %d", want, seq), natstest.Patience, func() error {
		if got := w.said(seq); got != want {
			return fmt.Errorf("the witness saw %q", got)
		}
		return nil
	})
}

// waitAttempts waits until n attempts have begun on req.
func (l *ledger) waitAttempts(tb testing.TB, req string, n int) {
	tb.Helper()
	natstest.Eventually(tb, fmt.Sprintf("%d attempts on %s", n, req), natstest.Patience, func() error {
		if got := l.begun()[req]; got < n {
			return fmt.Errorf("%d so far", got)
		}
		return nil
	})
}

// raw publishes to a subject of the topic what may be no event at all, with headers given in pairs.
func (w *world) raw(kind nats.EventKind, data string, headers ...string) uint64 {
	w.tb.Helper()
	msg := natsgo.NewMsg(widgets.SubjectOf(kind))
	msg.Data = []byte(data)
	for pair := range slices.Chunk(headers, 2) {
		msg.Header.Add(pair[0], pair[1])
	}
	ack, err := w.js.PublishMsg(w.tb.Context(), msg)
	if err != nil {
		w.tb.Fatal(err)
	}
	return ack.Sequence
}

// letters are the dead letters in a stream, none if it does not exist.
func (w *world) letters(stream string) []*jetstream.RawStreamMsg {
	w.tb.Helper()
	s, err := w.js.Stream(w.tb.Context(), stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		w.tb.Fatal(err)
	}
	var letters []*jetstream.RawStreamMsg
	state := s.CachedInfo().State
	for seq := max(state.FirstSeq, 1); seq <= state.LastSeq; seq++ {
		letter, err := s.GetMsg(w.tb.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			w.tb.Fatal(err)
		}
		letters = append(letters, letter)
	}
	return letters
}

// waitLetters waits until there are n dead letters in the default stream, and returns them.
func (w *world) waitLetters(n int) []*jetstream.RawStreamMsg {
	w.tb.Helper()
	var letters []*jetstream.RawStreamMsg
	natstest.Eventually(w.tb, fmt.Sprintf("%d dead letters", n), natstest.Patience, func() error {
		if letters = w.letters(widgetStream + "-dead"); len(letters) != n {
			return fmt.Errorf("%d of them", len(letters))
		}
		return nil
	})
	return letters
}

// logLines is what was logged.
type logLines struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

// with returns the lines that have all of these words.
func (l *logLines) with(words ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.Lines(l.lines.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			found = append(found, line)
		}
	}
	return found
}

// waitFor waits for a line that has all of these words.
func (l *logLines) waitFor(tb testing.TB, words ...string) string {
	tb.Helper()
	var found []string
	natstest.Until(tb, fmt.Sprintf("a line in the log with %q", words), natstest.Patience, func() bool {
		found = l.with(words...)
		return len(found) > 0
	})
	return found[0]
}

// keepLog makes members of w log where the test can read it.
func (w *world) keepLog() *logLines {
	l := new(logLines)
	w.log = slog.New(slog.NewTextHandler(l, nil))
	return l
}

// expectError checks that err says all of words.
func expectError(tb testing.TB, err error, words ...string) {
	tb.Helper()
	if err == nil {
		tb.Errorf("no error, want one that says %q", words)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			tb.Errorf("the error does not say %q: %v", word, err)
		}
	}
}
