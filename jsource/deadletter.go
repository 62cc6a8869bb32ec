package jsource

import (
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// DeadLetter is an event that a source has given up, or one request of it. See [Admin.DeadLetters].
type DeadLetter struct {
	ID         string        // "<stream that keeps it>/<its sequence there>"
	Stream     string        // of the original
	Sequence   uint64        // of the original, in its stream
	Subject    string        // of the original; "" if it was none of the topic's
	Durable    string        // which gave it up
	Reason     string        // ReasonTerminal, ReasonAttempts, ReasonUndecodable or ReasonDeliveries
	Error      string        // without control characters, at most 1 KiB
	Request    string        // the request that was given up; "" if it is the whole event
	Attempts   int           // failed attempts on it
	Deliveries int           // how often the original was handed out
	Stored     time.Time     // when the original was stored
	FirstSeen  time.Time     // when the replica that gave it up received it
	Died       time.Time     // when it was given up
	Superseded string        // sequences of events that it superseded; see [Source.Supersede]
	Reference  string        // why Data is not here: too large, or gone
	Header     natsgo.Header // of the original
	Data       []byte        // of the original
}

// readLetter is the dead letter that raw holds, in the stream of that name; false if it is none.
func readLetter(stream string, raw *jetstream.RawStreamMsg) (*DeadLetter, bool) {
	get := raw.Header.Get
	number := func(name string) int {
		n, _ := strconv.Atoi(get(name))
		return n
	}
	at := func(name string) time.Time {
		t, _ := time.Parse(time.RFC3339Nano, get(name))
		return t
	}
	seq, err := strconv.ParseUint(get(DeadSequence), 10, 64)
	if err != nil || get(DeadStream) == "" {
		return nil, false
	}
	l := &DeadLetter{
		ID:     stream + "/" + strconv.FormatUint(raw.Sequence, 10),
		Stream: get(DeadStream), Sequence: seq, Subject: get(DeadSubject), Durable: get(DeadDurable),
		Reason: get(DeadReason), Error: get(DeadError), Request: get(DeadRequest),
		Attempts: number(DeadAttempts), Deliveries: number(DeadDeliveries),
		Stored: at(DeadStored), FirstSeen: at(DeadFirstSeen), Died: at(DeadTime),
		Superseded: get(DeadSuperseded), Reference: get(DeadReference),
		Header: natsgo.Header{}, Data: raw.Data,
	}
	for name, values := range raw.Header {
		original, was := strings.CutPrefix(name, DeadOriginal)
		if was || !isLetters(name) && !isReserved(name) {
			l.Header[original] = values
		}
	}
	return l, true
}
