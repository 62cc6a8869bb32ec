package natstest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// pullTokens begin the subject of a pull; a domain or an API prefix may change what is before it.
const pullTokens = "CONSUMER.MSG.NEXT."

// Pull is one request for messages, as a client sent it.
type Pull struct {
	Reply     string // the inbox its messages and statuses go to: see [InjectStatus]
	Batch     int    // most messages it asks for
	MaxBytes  int    // most bytes; zero: no limit
	NoWait    bool
	Expires   time.Duration // zero: never
	Heartbeat time.Duration // the idle heartbeat it wants; zero: none
	At        time.Time     // when it was seen
}

// String is one line for a failed test's report.
func (p Pull) String() string {
	return fmt.Sprintf("pull of %d (%d bytes, no wait %t), expires in %v, heartbeat %v, to %s",
		p.Batch, p.MaxBytes, p.NoWait, p.Expires, p.Heartbeat, p.Reply)
}

// PullWatch records, in order, every pull any client sends for one durable. Methods may be called
// from any goroutine, those that take a testing.TB from the test's own.
type PullWatch struct {
	subject string
	pulls   recorder[Pull]
	subs    *subscriptions // nil behind a proxy
}

// WatchPulls records from now on, with a subscription on conn that stands when it returns. While it
// watches, pulls from a deleted consumer get no "no responders" answer; [Proxy.Pulls] has no such
// effect.
func WatchPulls(tb testing.TB, conn *nats.Conn, stream, durable string) *PullWatch {
	tb.Helper()
	w := newPullWatch(stream, durable)
	w.subs = subscribe(tb, conn, func(m *nats.Msg) {
		w.record(m.Subject, m.Reply, m.Data)
	}, "$JS.API."+w.subject)
	return w
}

func newPullWatch(stream, durable string) *PullWatch {
	w := &PullWatch{subject: pullTokens + stream + "." + durable}
	w.pulls.what = "the pulls of " + durable + " on " + stream
	return w
}

func (w *PullWatch) record(subject, reply string, payload []byte) {
	if !strings.HasSuffix(subject, "."+w.subject) {
		return
	}
	w.pulls.add(parsePull(reply, payload))
}

// parsePull reads a request as the server does: nothing at all asks for one message, a bare number
// for as many.
func parsePull(reply string, payload []byte) Pull {
	var req struct {
		Batch     int           `json:"batch"`
		MaxBytes  int           `json:"max_bytes"`
		NoWait    bool          `json:"no_wait"`
		Expires   time.Duration `json:"expires"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
	}
	if n, err := strconv.Atoi(string(payload)); err == nil {
		req.Batch = n
	} else {
		_ = json.Unmarshal(payload, &req) // the server answers a broken one, and asks for one message
	}
	return Pull{
		Reply: reply, Batch: max(1, req.Batch), MaxBytes: req.MaxBytes, NoWait: req.NoWait,
		Expires: req.Expires, Heartbeat: req.Heartbeat, At: time.Now(),
	}
}

// All is every pull seen so far; it does not wait.
func (w *PullWatch) All() []Pull { return w.pulls.all() }

// Last waits for a first pull, if there was none yet, and returns the latest.
func (w *PullWatch) Last(tb testing.TB) Pull {
	tb.Helper()
	var last Pull
	w.WaitFor(tb, "a pull", func(seen []Pull) bool {
		if len(seen) == 0 {
			return false
		}
		last = seen[len(seen)-1]
		return true
	})
	return last
}

// Sync returns when every pull that had reached the watch's server before the call is recorded.
// Behind a proxy there is nothing to wait for.
func (w *PullWatch) Sync(tb testing.TB) {
	tb.Helper()
	if w.subs != nil {
		w.subs.sync(tb)
	}
}

// WaitFor waits until cond holds of all pulls seen, and fails the test with what and a list of them
// if it does not within [Patience]. cond must not change what it is given.
func (w *PullWatch) WaitFor(tb testing.TB, what string, cond func([]Pull) bool) {
	tb.Helper()
	w.pulls.waitFor(tb, what, cond)
}
