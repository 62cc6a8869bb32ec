package queue

// Cause says what made a request wait for an attempt; causes add up until the attempt begins, and are
// kept when it is retried.
type Cause uint8

const (
	// Resync: a periodic list named the request.
	Resync Cause = 1 << iota
	// Event: a source that does not use the Tracker pushed it (a Kubernetes kind, core NATS).
	Event
	// Owed: a source that uses the Tracker pushed it, for a message that owes it.
	Owed
)

// resync reports whether only the resync asks for the attempt.
func (c Cause) resync() bool { return c == Resync }

func (c Cause) String() string {
	switch {
	case c&Owed != 0:
		return "message"
	case c&Event != 0:
		return "event"
	case c&Resync != 0:
		return "resync"
	default:
		return "retry"
	}
}
