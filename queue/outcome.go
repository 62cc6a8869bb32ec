package queue

import "errors"

// Outcome says what one attempt means for the messages that owe its request.
type Outcome uint8

const (
	// Success settles the request for every message that the attempt covers.
	Success Outcome = iota
	// Unfinished means that the work goes on elsewhere: the request stays owed, and this was no failure.
	Unfinished
	// Failed keeps the request owed and counts towards MaxAttempts.
	Failed
	// Cut means that the attempt was cut short because the controller stops: the request stays owed,
	// and the attempt is not counted.
	Cut
	// Dead means that retrying cannot help: the request becomes a dead letter for every message that
	// the attempt covers.
	Dead
)

func (o Outcome) String() string {
	switch o {
	case Success:
		return "success"
	case Unfinished:
		return "unfinished"
	case Failed:
		return "failed"
	case Cut:
		return "cut"
	case Dead:
		return "dead"
	default:
		return "unknown"
	}
}

// Policy turns what a Reconcile returned into an [Outcome].
type Policy[result any] func(res result, err error) Outcome

// DefaultPolicy is the policy of [Wrap]: a terminal error is Dead, any other error Failed; a nil error
// is Success, unless the result has a method KeepOwed() bool that returns true: then it is Unfinished.
// A result that asks to be requeued after a while is a success: a controller that polls for ever must
// not hold its messages for ever.
func DefaultPolicy[result any](res result, err error) Outcome {
	switch {
	case err == nil:
		if r, ok := any(res).(interface{ KeepOwed() bool }); ok && r.KeepOwed() {
			return Unfinished
		}
		return Success
	case IsTerminal(err):
		return Dead
	default:
		return Failed
	}
}

// Terminal marks err as one that retrying cannot help. It returns nil for a nil err.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

// IsTerminal reports whether err, or an error it wraps, was marked by [Terminal].
func IsTerminal(err error) bool {
	var t *terminalError
	return errors.As(err, &t)
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return "terminal error: " + e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }
