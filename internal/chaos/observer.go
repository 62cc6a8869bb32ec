//go:build unix

package chaos

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/internal/history"
	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
)

// observer turns what passes one replica's wire into history.
type observer struct {
	replica string
	rec     *history.Recorder

	mu      sync.Mutex
	waiting map[string]bool          // replies that the replica waits for
	verdict map[string]time.Duration // when verdicts were sent that have not passed, by where they go
}

func newObserver(replica string, rec *history.Recorder) *observer {
	return &observer{replica: replica, rec: rec, waiting: map[string]bool{}, verdict: map[string]time.Duration{}}
}

var (
	ackPrefix  = []byte("$JS.ACK.")
	deadPrefix = []byte("jsource.dead.")
)

// sent implements tap.
func (o *observer) sent(link int, at time.Duration, m message) {
	switch {
	case bytes.HasPrefix(m.subject, ackPrefix):
		s, err := natstest.ParseSettlement(string(m.subject), string(m.reply), m.payload)
		if err != nil || s.Stream != streamName || s.Durable != durableName {
			return
		}
		o.wait(s.Reply)
		if s.Verdict() {
			o.mu.Lock()
			o.verdict[string(m.subject)] = at
			o.mu.Unlock()
		}
		o.rec.Signalled(history.Signal{
			Replica: o.replica, Link: link, Kind: kindOf(s.Kind), Message: history.ID{Seq: s.StreamSeq, Stored: s.Stored.UnixNano()},
			Count: s.Deliveries, ConsumerSeq: s.ConsumerSeq, Reply: s.Reply, At: at,
		})
	case bytes.HasPrefix(m.subject, deadPrefix):
		o.buried(at, m)
	}
}

// late is how long after it was sent a verdict that passes is worth a record.
const late = 50 * time.Millisecond

// passed implements tap.
func (o *observer) passed(at time.Duration, m message) {
	if !bytes.HasPrefix(m.subject, ackPrefix) {
		return
	}
	o.mu.Lock()
	sent, ok := o.verdict[string(m.subject)]
	delete(o.verdict, string(m.subject))
	o.mu.Unlock()
	if !ok || at-sent < late {
		return
	}
	s, err := natstest.ParseSettlement(string(m.subject), "", m.payload)
	if err != nil || !s.Verdict() {
		return
	}
	l := history.Late{Replica: o.replica, Message: history.ID{Seq: s.StreamSeq, Stored: s.Stored.UnixNano()}, Passed: at}
	o.rec.Change(func(h *history.History) { h.Lates = append(h.Lates, l) })
}

func kindOf(k natstest.Kind) history.Kind {
	switch k {
	case natstest.Ack, natstest.Next:
		return history.Ack
	case natstest.Term:
		return history.Term
	case natstest.Nak:
		return history.Nak
	case natstest.InProgress:
		return history.Beat
	default:
		return history.Kind(k)
	}
}

// buried records a dead letter on its way.
func (o *observer) buried(at time.Duration, m message) {
	h, err := natsgo.DecodeHeadersMsg(m.header)
	if err != nil {
		return
	}
	seq, err := strconv.ParseUint(h.Get(jsource.DeadSequence), 10, 64)
	if err != nil {
		return
	}
	stored, err := time.Parse(time.RFC3339Nano, h.Get(jsource.DeadStored))
	if err != nil {
		return
	}
	o.wait(string(m.reply))
	o.rec.Buried(history.Letter{
		Replica: o.replica, Message: history.ID{Seq: seq, Stored: stored.UnixNano()},
		Request: h.Get(jsource.DeadRequest), Reply: string(m.reply), At: at,
	})
}

func (o *observer) wait(reply string) {
	if reply == "" {
		return
	}
	o.mu.Lock()
	o.waiting[reply] = true
	o.mu.Unlock()
}

// handed implements tap.
func (o *observer) handed(link int, at time.Duration, m message) {
	if bytes.HasPrefix(m.reply, ackPrefix) {
		s, err := natstest.ParseSettlement(string(m.reply), "", nil)
		if err != nil || s.Stream != streamName || s.Durable != durableName {
			return
		}
		var header natsgo.Header
		if bytes.Contains(m.header, []byte(callHeader)) {
			header, _ = natsgo.DecodeHeadersMsg(m.header) // without one it has no call
		}
		o.rec.Delivered(history.Delivery{
			Replica: o.replica, Message: history.ID{Seq: s.StreamSeq, Stored: s.Stored.UnixNano()},
			Count: s.Deliveries, ConsumerSeq: s.ConsumerSeq, Call: callOf(string(m.subject), header, m.payload), At: at,
		})
		return
	}
	o.mu.Lock()
	waiting := o.waiting[string(m.subject)]
	refused := bytes.HasPrefix(m.header, []byte("NATS/1.0 503")) || bytes.Contains(m.payload, []byte(`"error"`))
	if waiting && !refused {
		delete(o.waiting, string(m.subject))
	}
	o.mu.Unlock()
	if waiting {
		o.rec.Answered(history.Answer{Replica: o.replica, Link: link, Reply: string(m.subject), Refused: refused, At: at})
	}
}
