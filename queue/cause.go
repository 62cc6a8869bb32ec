package queue

// Cause says what made a request wait for an attempt; causes add up until the attempt begins, and are
// kept when it is retried.
type Cause uint8

const (
	// Resync means that a periodic list named the request.
	Resync Cause = 1 << iota
	// Event means that a source that does not use the Tracker pushed it (a Kubernetes kind, core NATS).
	Event
	// Owed means that a source that uses the Tracker pushed it, for a message that owes it.
	Owed
	// Requeue means that an attempt on it asked for another one after a while. It comes with what caused
	// that one.
	Requeue
	// Low means that a source said itself that the request can wait, such as the first list of a
	// Kubernetes kind.
	Low
)

// yields reports whether the attempt gives way to those that events ask for.
func (c Cause) yields() bool { return c&(Resync|Low) != 0 && c&(Event|Owed) == 0 }

func (c Cause) String() string {
	switch {
	case c&Owed != 0:
		return "message"
	case c&Event != 0:
		return "event"
	case c&Requeue != 0:
		return "requeue"
	case c&Resync != 0:
		return "resync"
	case c&Low != 0:
		return "low priority"
	default:
		return "unknown"
	}
}
