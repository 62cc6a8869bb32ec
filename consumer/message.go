package consumer

import (
	"time"

	"github.com/nats-io/nats.go"
)

// Message is one message that this replica holds. The [Handler] that was given it decides it with Ack,
// Term or GiveBack, once; further calls do nothing. Its methods may be called from any goroutine.
type Message struct {
	consumer *Consumer
	msg      *nats.Msg // nil once its content was dropped
	seq      uint64
	stored   int64 // Unix nanoseconds

	// Below: under consumer.mu.
	owner      any
	odd        *string // the newest copy's reply, if it cannot be made from what is known otherwise
	cseq       uint64  // of the newest copy
	pending    uint32  // of the newest copy's reply, the last number
	deliveries uint32  // of the newest copy
	received   time.Duration
	first      time.Duration // when the first copy was received
	state      messageState
	verdict    verdict
	handled    bool   // the Handler has it
	silent     bool   // the Handler was never given it: it only gets its verdict again
	lapsed     bool   // another replica may be working on it
	replaced   bool   // the durable that handed it out was made anew: any copy is newer
	tries      uint16 // how often the verdict was sent

	id    uint64        // of the verdict or nak, until it is confirmed
	since time.Duration // when it was decided
	sent  time.Duration // when the verdict was last sent
}

type messageState uint8

const (
	held    messageState = iota
	decided              // has a verdict that is not confirmed yet
	ended
)

type verdict uint8

const (
	none verdict = iota
	ack
	term
)

// Ending says how a message left this replica.
type Ending uint8

const (
	// Acked says that the server has confirmed the ack.
	Acked Ending = iota
	// Termed says that the server has confirmed the term.
	Termed
	// GivenBack says that it was given back, or left to redelivery because its lease may have lapsed.
	GivenBack
	// Released says that it was held as long as HoldLimit allows and then given back.
	Released
	// Forgotten says that its stream is gone, or was made anew.
	Forgotten
	// Unconfirmed says that it was decided, and the server did not confirm it in time. It will be
	// redelivered and gets the same verdict then.
	Unconfirmed
)

func (e Ending) String() string {
	switch e {
	case Acked:
		return "ack"
	case Termed:
		return "term"
	case GivenBack:
		return "given_back"
	case Released:
		return "released"
	case Forgotten:
		return "forgotten"
	case Unconfirmed:
		return "unconfirmed"
	default:
		return "unknown"
	}
}

// Subject is the subject it was published to. Like Data and Header it is empty after Drop.
func (m *Message) Subject() string {
	if m.msg == nil {
		return ""
	}
	return m.msg.Subject
}

// Data is its payload.
func (m *Message) Data() []byte {
	if m.msg == nil {
		return nil
	}
	return m.msg.Data
}

// Header is its headers.
func (m *Message) Header() nats.Header {
	if m.msg == nil {
		return nil
	}
	return m.msg.Header
}

// Drop lets go of subject, payload and headers, so that a message that is held for long costs little.
// Only the goroutine that Handle was called from may call it, and not after it let others use the message.
func (m *Message) Drop() { m.msg = nil }

// Sequence is its sequence in the stream.
func (m *Message) Sequence() uint64 { return m.seq }

// Stored is when the stream stored it.
func (m *Message) Stored() time.Time { return time.Unix(0, m.stored) }

// Received is when this replica received the first copy of it that it still holds.
func (m *Message) Received() time.Time { return m.consumer.began.Add(m.first) }

// Own attaches owner to the message, for Handler.Ended to find it with Owner. It reports false, and does
// nothing, when the message has ended already: then it is not worth any work.
func (m *Message) Own(owner any) bool {
	m.consumer.mu.Lock()
	defer m.consumer.mu.Unlock()
	if m.state == ended {
		return false
	}
	m.owner = owner
	return true
}

// Owner is what was attached to the message with Own, nil if nothing was.
func (m *Message) Owner() any {
	m.consumer.mu.Lock()
	defer m.consumer.mu.Unlock()
	return m.owner
}

// Deliveries is how often it was handed out so far, to any replica.
func (m *Message) Deliveries() uint64 {
	m.consumer.mu.Lock()
	defer m.consumer.mu.Unlock()
	return uint64(m.deliveries)
}

// Ack settles the message: its work is done. It returns at once; Handler.Ended tells when the server has
// confirmed it. It reports whether this was the decision.
func (m *Message) Ack() bool { return m.consumer.decide(m, ack) }

// Term settles the message: it will never be worked on. It returns at once, like Ack.
func (m *Message) Term() bool { return m.consumer.decide(m, term) }

// GiveBack gives the message back, to be handed out again after delay; with a delay of 0 at once. It
// stays unsettled, and counts towards MaxAckPending meanwhile. If the lease may have lapsed, it is left
// to redelivery instead. It reports whether this was the decision.
func (m *Message) GiveBack(delay time.Duration) bool { return m.consumer.giveBack(m, delay, GivenBack) }
