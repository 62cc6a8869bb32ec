package natstest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// AdvisoryKind is what the server reports, in its own words.
type AdvisoryKind string

// The kinds tests ask for most. Others (CREATED, DELETED, LEADER_ELECTED, …) are recorded as well.
const (
	MaxDeliveries AdvisoryKind = "MAX_DELIVERIES"
	MsgNaked      AdvisoryKind = "MSG_NAKED"
	MsgTerminated AdvisoryKind = "MSG_TERMINATED"
	// AckSample is a metric, not an advisory: only the first effective ack of a message, and only if
	// the consumer is sampled.
	AckSample AdvisoryKind = "ACK"
)

// Advisory is what the server said about a consumer or one of its messages.
type Advisory struct {
	Kind        AdvisoryKind  `json:"-"`
	Stream      string        `json:"stream"`
	Durable     string        `json:"consumer"`
	StreamSeq   uint64        `json:"stream_seq"`
	ConsumerSeq uint64        `json:"consumer_seq"`
	Deliveries  uint64        `json:"deliveries"`
	Reason      string        `json:"reason"`   // of a term
	Delay       time.Duration `json:"ack_time"` // of an ack sample: from delivery to ack
	At          time.Time     `json:"-"`        // when it was seen
}

// String is one line for a failed test's report.
func (a Advisory) String() string {
	return fmt.Sprintf("%s of %d (delivery %d) %s", a.Kind, a.StreamSeq, a.Deliveries, a.Reason)
}

// Advisories records, in order, what the server says about one durable. Methods may be called from
// any goroutine, those that take a testing.TB from the test's own.
type Advisories struct {
	seen recorder[Advisory]
	subs *subscriptions
}

// WatchAdvisories records from now on, with subscriptions on conn that stand when it returns.
func WatchAdvisories(tb testing.TB, conn *nats.Conn, stream, durable string) *Advisories {
	tb.Helper()
	a := new(Advisories)
	a.seen.what = "the advisories on " + durable + " on " + stream
	name := "." + stream + "." + durable
	a.subs = subscribe(tb, conn, func(m *nats.Msg) {
		adv := Advisory{At: time.Now()}
		if json.Unmarshal(m.Data, &adv) != nil {
			return // of another shape: none that says something of a message
		}
		kind := strings.TrimSuffix(m.Subject, name)
		adv.Kind = AdvisoryKind(kind[strings.LastIndexByte(kind, '.')+1:])
		a.seen.add(adv)
	}, "$JS.EVENT.ADVISORY.CONSUMER.*"+name, "$JS.EVENT.METRIC.CONSUMER.ACK"+name)
	return a
}

// All is everything seen so far; it does not wait.
func (a *Advisories) All() []Advisory { return a.seen.all() }

// Count is how many of a kind were seen.
func (a *Advisories) Count(kind AdvisoryKind) int {
	n := 0
	for _, adv := range a.All() {
		if adv.Kind == kind {
			n++
		}
	}
	return n
}

// Sync returns when every advisory that had reached the watch's server before the call is recorded.
// The server sends them a moment after what they report.
func (a *Advisories) Sync(tb testing.TB) {
	tb.Helper()
	a.subs.sync(tb)
}

// WaitFor waits until cond holds of everything seen, and fails the test with what and a list of the
// advisories if it does not within [Patience]. cond must not change what it is given.
func (a *Advisories) WaitFor(tb testing.TB, what string, cond func([]Advisory) bool) {
	tb.Helper()
	a.seen.waitFor(tb, what, cond)
}
