package jsource

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	natsgo "github.com/nats-io/nats.go"
)

// Headers of a dead letter. It also carries the headers and the payload of the original; original headers
// that mean something to JetStream or its clients (Nats-…, Status) are prefixed with DeadOriginal.
const (
	DeadSubject    = "Jsource-Dead-Subject"    // the subject of the original
	DeadStream     = "Jsource-Dead-Stream"     // its stream
	DeadSequence   = "Jsource-Dead-Sequence"   // its sequence in the stream
	DeadDurable    = "Jsource-Dead-Durable"    // the durable that gave it up
	DeadDeliveries = "Jsource-Dead-Deliveries" // how often it was handed out
	DeadReason     = "Jsource-Dead-Reason"     // ReasonTerminal, ReasonAttempts, ReasonUndecodable or ReasonDeliveries
	DeadError      = "Jsource-Dead-Error"      // the error, without control characters, at most 1 KiB
	DeadRequest    = "Jsource-Dead-Request"    // the request that was given up, unless it is the whole message
	DeadAttempts   = "Jsource-Dead-Attempts"   // failed attempts on it
	DeadStored     = "Jsource-Dead-Stored"     // when the original was stored (RFC 3339)
	DeadFirstSeen  = "Jsource-Dead-First-Seen" // when the replica that gave it up received it
	DeadTime       = "Jsource-Dead-Time"       // when it was given up
	DeadSuperseded = "Jsource-Dead-Superseded" // sequences of messages it superseded, the last 100 of them
	DeadReference  = "Jsource-Dead-Reference"  // why the payload is not here: too large, or gone
	DeadOriginal   = "Jsource-Original-"

	deadHeaders = "Jsource-Dead-"
)

// Reasons for a dead letter: what [DeadLetter] and the header [DeadReason] say, and [LetterFilter] asks for.
const (
	// ReasonTerminal means that an attempt on a request of the event ended with [reconciler.TerminalError].
	ReasonTerminal = "terminal"
	// ReasonAttempts means that attempts on a request of the event failed as often as [Source.MaxAttempts] allows.
	ReasonAttempts = "attempts"
	// ReasonUndecodable means that the message is no event of the topic, or none that this version of the program
	// understands. It was handed out three times, so that another version could have taken it.
	ReasonUndecodable = "undecodable"
	// ReasonDeliveries means that the message was handed out more often than [Source.MaxDeliveries] allows: it may be
	// what kills the process, or its mapper fails each time.
	ReasonDeliveries = "deliveries"
)

const maxErrorText = 1024

// letter is the dead letter of b, without the original's headers and payload.
func (b *burial[K, T, request]) letter(stream, subject string) *natsgo.Msg {
	m := b.delivery.msg
	msg := natsgo.NewMsg(subject)
	set := msg.Header.Set
	if subject := b.delivery.subject(); subject != "" {
		set(DeadSubject, subject)
	}
	set(DeadStream, stream)
	set(DeadSequence, strconv.FormatUint(m.Sequence(), 10))
	set(DeadDurable, b.delivery.run.durable)
	set(DeadDeliveries, strconv.FormatUint(m.Deliveries(), 10))
	set(DeadReason, b.reason)
	set(DeadError, plain(b.err))
	if b.req != nil {
		set(DeadRequest, clean(fmt.Sprint(*b.req), maxErrorText))
		set(DeadAttempts, strconv.Itoa(b.attempts))
	}
	set(DeadStored, m.Stored().UTC().Format(time.RFC3339Nano))
	set(DeadFirstSeen, m.Received().UTC().Format(time.RFC3339Nano))
	set(DeadTime, b.at.UTC().Format(time.RFC3339Nano))
	if named := b.delivery.named(); named != "" {
		set(DeadSuperseded, named)
	}
	return msg
}

// addOriginal adds the headers and the payload of the original.
func addOriginal(letter *natsgo.Msg, subject string, header natsgo.Header, data []byte) {
	letter.Header.Set(DeadSubject, subject)
	for key, values := range header {
		name := key
		if isReserved(key) {
			name = DeadOriginal + key
		}
		if isLetters(name) {
			continue // a dead letter that was replayed and died again: the newer says all
		}
		for _, value := range values {
			letter.Header.Add(name, value)
		}
	}
	letter.Data = data
}

// isNATS reports whether a header of that name means something to the server.
func isNATS(name string) bool { return strings.HasPrefix(strings.ToLower(name), "nats-") }

// isReserved reports whether a header of that name means something to the server or its clients: what has a Status and
// no payload they take for an answer.
func isReserved(name string) bool {
	return isNATS(name) || strings.EqualFold(name, "Status") || strings.EqualFold(name, "Description")
}

// isLetters reports whether a header of that name is one of those that a dead letter adds.
func isLetters(name string) bool {
	return len(name) >= len(deadHeaders) && strings.EqualFold(name[:len(deadHeaders)], deadHeaders)
}

// plain is the text of err as a header can hold it.
func plain(err error) string {
	if err == nil {
		return ""
	}
	return clean(err.Error(), maxErrorText)
}

// clean takes control characters out of s and cuts it to at most limit bytes.
func clean(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
	}
	return s
}
