package natstest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is what a settlement asks of the server.
type Kind string

// The kinds a server knows. A payload it does not know, and therefore ignores, is Unknown.
const (
	Ack        Kind = "ack"
	Nak        Kind = "nak"
	Term       Kind = "term"
	InProgress Kind = "in progress"
	Next       Kind = "next"
	Unknown    Kind = "unknown"
)

// Settlement is one message on a delivery's ack reply: what a client told the server about it.
type Settlement struct {
	Kind       Kind
	Payload    string // as sent: a delayed nak's delay and a term's reason stand in it
	Stream     string
	Durable    string
	Deliveries uint64 // the delivery count of the copy it answers, from 1
	StreamSeq  uint64
	// ConsumerSeq counts hand-outs: two copies of one message differ in it.
	ConsumerSeq uint64
	Stored      time.Time // when the stream stored the message
	At          time.Time // when the witness saw it
	// Reply is set where the client asked to be told that the server has it (a confirmed settlement).
	Reply string
}

// Verdict reports whether it is final: an ack, also one that asks for the next message, or a term.
func (s Settlement) Verdict() bool { return s.Kind == Ack || s.Kind == Next || s.Kind == Term }

// Delay is how long a nak asked to wait before the message is handed out again; zero if it did not
// say, or is no nak.
func (s Settlement) Delay() time.Duration {
	arg, isNak := strings.CutPrefix(s.Payload, "-NAK")
	if !isNak {
		return 0
	}
	arg = strings.TrimSpace(arg)
	if d, err := time.ParseDuration(arg); err == nil {
		return d
	}
	// The form nats.go sends: {"delay": <nanoseconds>}
	if _, after, found := strings.Cut(arg, ":"); found {
		ns, err := strconv.ParseInt(strings.Trim(after, " }"), 10, 64)
		if err == nil {
			return time.Duration(ns)
		}
	}
	return 0
}

// String is one line for a failed test's report.
func (s Settlement) String() string {
	confirm := ""
	if s.Reply != "" {
		confirm = ", to be confirmed"
	}
	return fmt.Sprintf("%s of %d (delivery %d, consumer sequence %d%s) %q",
		s.Kind, s.StreamSeq, s.Deliveries, s.ConsumerSeq, confirm, s.Payload)
}

// The token counts of an ack reply. Servers write one of two layouts:
//
//	$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<stored, ns>.<pending>
//	$JS.ACK.<domain or _>.<account hash>.<stream>.<consumer>.… and the same five, perhaps more behind
const (
	plainTokens    = 9
	scopedTokens   = 11
	ackTokens      = "$JS.ACK."
	scopedPosition = 4 // of the stream; 2 in the plain layout
)

var (
	errNoAckReply = errors.New("not an ack reply")
	errProbe      = errors.New("not heard yet")
)

// ParseSettlement reads a message published to an ack reply, as a [Witness] does. A delivery's reply says
// which message and copy it is: read it with an empty payload. An error says that subject is no ack reply.
func ParseSettlement(subject, reply string, payload []byte) (Settlement, error) {
	tokens := strings.Split(subject, ".")
	first := scopedPosition
	switch {
	case !strings.HasPrefix(subject, ackTokens):
		return Settlement{}, errNoAckReply
	case len(tokens) == plainTokens:
		first = 2
	case len(tokens) < scopedTokens:
		return Settlement{}, errNoAckReply
	}
	var nums [4]uint64
	for i := range nums {
		n, err := strconv.ParseUint(tokens[first+2+i], 10, 64)
		if err != nil {
			return Settlement{}, errNoAckReply
		}
		nums[i] = n
	}
	return Settlement{
		Kind:        kindOf(payload),
		Payload:     string(payload),
		Stream:      tokens[first],
		Durable:     tokens[first+1],
		Deliveries:  nums[0],
		StreamSeq:   nums[1],
		ConsumerSeq: nums[2],
		Stored:      time.Unix(0, int64(nums[3])),
		At:          time.Now(),
		Reply:       reply,
	}, nil
}

// kindOf reads a payload as the server does: nothing at all is an ack.
func kindOf(payload []byte) Kind {
	switch {
	case len(payload) == 0, string(payload) == "+ACK", string(payload) == "+OK":
		return Ack
	case string(payload) == "+WPI":
		return InProgress
	case bytes.HasPrefix(payload, []byte("-NAK")):
		return Nak
	case bytes.HasPrefix(payload, []byte("+TERM")):
		return Term
	case bytes.HasPrefix(payload, []byte("+NXT")):
		return Next
	default:
		return Unknown
	}
}
