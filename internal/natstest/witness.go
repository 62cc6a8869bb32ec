package natstest

import (
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
)

// Witness records, in order, every settlement any client sends for one durable. It trusts no client:
// it reads them off the wire. Methods may be called from any goroutine, those that take a testing.TB
// from the test's own.
type Witness struct {
	stream, durable string
	settlements     recorder[Settlement]
	subs            *subscriptions // nil behind a proxy
	probe           atomic.Int64   // the last one that arrived
}

// Watch records from now on, with subscriptions on conn: they stand when Watch returns. In a cluster,
// interest takes a moment to reach the other servers: see [Witness.Reach]. While it watches,
// settlements for a deleted consumer get no "no responders" answer; [Proxy.Watch] has no such effect.
func Watch(tb testing.TB, conn *nats.Conn, stream, durable string) *Witness {
	tb.Helper()
	w := newWitness(stream, durable)
	w.subs = subscribe(tb, conn, func(m *nats.Msg) {
		if m.Subject == w.probeSubject() {
			n, _ := strconv.ParseInt(string(m.Data), 10, 64)
			w.probe.Store(n)
			return
		}
		w.record(m.Subject, m.Reply, m.Data)
	}, w.subjects()...)
	return w
}

func newWitness(stream, durable string) *Witness {
	w := &Witness{stream: stream, durable: durable}
	w.settlements.what = "the settlements of " + durable + " on " + stream
	return w
}

// subjects are those settlements arrive on: in the plain layout, and in the one scoped by domain and
// account.
func (w *Witness) subjects() []string {
	name := w.stream + "." + w.durable + ".>"
	return []string{ackTokens + name, ackTokens + "*.*." + name}
}

// probeSubject is one the witness hears and the consumer, which wants all nine tokens, does not.
func (w *Witness) probeSubject() string { return ackTokens + w.stream + "." + w.durable + ".probe" }

// record takes a published message and keeps it if it settles something of this durable.
func (w *Witness) record(subject, reply string, payload []byte) {
	s, err := ParseSettlement(subject, reply, payload)
	// The wildcards of one layout can match the other with unlucky names: the parser tells.
	if err == nil && s.Stream == w.stream && s.Durable == w.durable {
		w.settlements.add(s)
	}
}

// Reach returns when what is published on each of the connections arrives at the witness. Only in a
// cluster is there anything to wait for.
func (w *Witness) Reach(tb testing.TB, from ...*nats.Conn) {
	tb.Helper()
	for i, conn := range from {
		mark := int64(i + 1)
		Eventually(tb, "the witness hears "+conn.ConnectedUrl(), Patience, func() error {
			if err := conn.Publish(w.probeSubject(), strconv.AppendInt(nil, mark, 10)); err != nil {
				return err
			}
			if err := conn.FlushTimeout(Patience); err != nil {
				return err
			}
			if last := w.probe.Load(); last != mark {
				return errProbe
			}
			return nil
		})
	}
}

// All is everything seen so far. It does not wait: call [Witness.Sync] first where something must not
// have happened.
func (w *Witness) All() []Settlement { return w.settlements.all() }

// Of is what was seen of one message, by its stream sequence. A stream that was deleted and made
// again counts from 1 again: tell those apart by Stored.
func (w *Witness) Of(seq uint64) []Settlement {
	return w.only(func(s Settlement) bool { return s.StreamSeq == seq })
}

// Verdicts is what was seen of one message that is final: acks and terms, repeated ones too.
func (w *Witness) Verdicts(seq uint64) []Settlement {
	return w.only(func(s Settlement) bool { return s.StreamSeq == seq && s.Verdict() })
}

// Count is how many of a kind were seen.
func (w *Witness) Count(kind Kind) int {
	return len(w.only(func(s Settlement) bool { return s.Kind == kind }))
}

func (w *Witness) only(keep func(Settlement) bool) []Settlement {
	return slices.DeleteFunc(w.All(), func(s Settlement) bool { return !keep(s) })
}

// Sync returns when every settlement that had reached the witness's server before the call is
// recorded. Behind a proxy there is nothing to wait for.
func (w *Witness) Sync(tb testing.TB) {
	tb.Helper()
	if w.subs != nil {
		w.subs.sync(tb)
	}
}

// WaitFor waits until cond holds of everything seen, and fails the test with what and a list of the
// settlements if it does not within [Patience]. cond must not change what it is given.
func (w *Witness) WaitFor(tb testing.TB, what string, cond func([]Settlement) bool) {
	tb.Helper()
	w.settlements.waitFor(tb, what, cond)
}
