package history

import (
	"fmt"
	"time"
)

// History is the record. Its times are time since an arbitrary origin on one clock that all processes
// share; lists are in the order of recording.
type History struct {
	// AckWait is the durable's.
	AckWait time.Duration
	// Slack is allowed for a delay between a thing and its record where only that could make a
	// violation up (L5, and how soon after its confirmation a verdict may still be repeated).
	Slack time.Duration
	// HoldLimit says that replicas give messages back that they held for long: a message may then be
	// mapped again without a nak having been seen.
	HoldLimit bool
	// Supersede says that replicas ack a message early once newer ones owe all that it owes.
	Supersede bool

	Publishes  []Publish
	Deliveries []Delivery
	Signals    []Signal
	Answers    []Answer
	Lates      []Late
	Letters    []Letter
	Mappings   []Mapping
	Attempts   []Attempt
	Wipes      []Wipe
	Floors     []Floor
	Pauses     []Pause
	Forgets    []Forget
	Waits      []Wait
	Final      Final
}

// ID is a message's identity.
type ID struct {
	Seq    uint64
	Stored int64 // Unix nanoseconds, as the server says
}

func (id ID) String() string {
	return fmt.Sprintf("%d (stored %s)", id.Seq, time.Unix(0, id.Stored).UTC().Format("15:04:05.000000"))
}

// Publish is one call that published an event.
type Publish struct {
	// Call is unique; the event carries it.
	Call uint64
	// Change is what the event tells of. Calls with the same change carry the same message id.
	Change uint64
	Key    string
	// Owes are the requests it is mapped to. Empty: the mapper returns none, or a filter drops it.
	Owes []string
	// Garbage says that nobody can decode it.
	Garbage    bool
	Begin, End time.Duration
	// Confirmed says that the stream has answered; the rest is its answer.
	Confirmed bool
	Seq       uint64
	Duplicate bool
	Err       string
}

// Delivery is one hand-out of a message on the wire to a replica.
type Delivery struct {
	Replica     string
	Message     ID
	Count       uint64 // the delivery count, from 1
	ConsumerSeq uint64
	Call        uint64 // what its payload says
	At          time.Duration
}

// Kind is what a signal tells the server.
type Kind string

// The kinds of signal.
const (
	Ack  Kind = "ack"
	Term Kind = "term"
	Nak  Kind = "nak"
	Beat Kind = "heartbeat"
)

// Signal is one message of a replica on a delivery's ack subject.
type Signal struct {
	Replica     string
	Link        int // the number of the replica's connection: within one, signals are in the order sent
	Kind        Kind
	Message     ID
	Count       uint64 // of the copy that it answers, as is ConsumerSeq
	ConsumerSeq uint64
	Reply       string // where it wants to be answered
	At          time.Duration
}

// Verdict reports whether the signal is final.
func (s *Signal) Verdict() bool { return s.Kind == Ack || s.Kind == Term }

// Late is a verdict that was held back on its way to the server, and let through at last.
type Late struct {
	Replica string
	Message ID
	Passed  time.Duration
}

// Answer is the server's answer to a signal or to a dead letter, on the wire to the replica.
type Answer struct {
	Replica string
	Link    int // the connection it came on
	Reply   string
	Refused bool // there was nobody to answer, or the answer is an error
	At      time.Duration
}

// Letter is one dead letter that a replica sent to be stored.
type Letter struct {
	Replica string
	Message ID
	Request string // empty: the whole message
	Reply   string
	At      time.Duration
}

// Mapping is one call of the mapper.
type Mapping struct {
	Replica    string
	Call       uint64
	Begin, End time.Duration
	Failed     bool // it returned an error or panicked
}

// Outcome is how an attempt ended.
type Outcome string

// The outcomes of an attempt.
const (
	Success    Outcome = "success"
	Unfinished Outcome = "unfinished"
	Failed     Outcome = "failed"
	Panicked   Outcome = "panicked"
	Terminal   Outcome = "terminal"
	Running    Outcome = "" // its end was not seen
)

// Attempt is one run of the reconcile function.
type Attempt struct {
	Replica    string
	Request    string
	Begin, End time.Duration // End is 0 while it runs
	Outcome    Outcome
	Seen       uint64 // the newest change of the request that it saw, read after Begin
}

// Wipe is a time in which the stream was purged, or deleted: what was stored before its End may be gone.
type Wipe struct {
	What       string
	Deleted    bool
	Begin, End time.Duration
}

// Floor is what the server said of the durable at some time: everything up to Seq is settled. It is asked
// for right before a wipe, which takes away what could be looked at in the end.
type Floor struct {
	At  time.Duration // before it was asked
	Seq uint64
}

// Pause is a time in which a replica was not running, though alive. What was handed to it then it has
// received at the End, and what it had decided before the Begin may have been sent after the End.
type Pause struct {
	Replica    string
	Begin, End time.Duration
}

// Forget says that a replica has forgotten what it held, a moment before: the stream was made anew.
type Forget struct {
	Replica string
	At      time.Duration
}

// Wait is one call that waited until an event was reconciled.
type Wait struct {
	Call       uint64 // of the publish whose receipt it was given
	Begin, End time.Duration
	Done       bool   // it returned without an error
	Dead       bool   // it returned saying that there are dead letters
	Err        string // or for another reason
}

// Final is what the server says at the end.
type Final struct {
	Created       int64 // when the stream was, Unix nanoseconds
	Stored        []Stored
	NumPending    uint64
	NumAckPending int
	// Waited is how long it was waited for until nothing was pending, and TimedOut that it was in vain.
	Waited   time.Duration
	TimedOut bool
}

// Stored is one message in the stream at the end.
type Stored struct {
	Message ID
	Call    uint64
}
