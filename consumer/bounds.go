package consumer

import "time"

// bounds are the times a Consumer goes by, apart from those that follow from AckWait.
type bounds struct {
	// poll is how often the durable is looked up when nothing is wrong.
	poll time.Duration
	// lookUp bounds one look-up or repair.
	lookUp time.Duration
	// gone is how long a stream must have been gone before it is made again: a server that is still deleting the
	// old one can spoil the new one, and whoever deleted it may make it again.
	gone time.Duration
	// In trouble the durable is looked up again after first, then twice that, up to most; only a spell
	// of twice most without trouble begins with first again.
	first, most time.Duration
	// resendFirst is how long a verdict waits for the server's answer before it is sent again; the wait
	// doubles with each further time, up to resendMost.
	resendFirst, resendMost time.Duration
	// confirm is how long a verdict is repeated at most.
	confirm time.Duration
	// nak is how long the answer to a nak is waited for; a nak is never repeated.
	nak time.Duration
	// expires is how long the server keeps a pull that it cannot serve.
	expires time.Duration
	// pulse is how often the server says that a pull it keeps is alive; after silence of two and a half
	// times that the pull is taken for lost.
	pulse time.Duration
}

// resend is how long a verdict waits that was sent so many times.
func (b *bounds) resend(tries int) time.Duration {
	return min(b.resendFirst<<min(tries-1, 10), b.resendMost)
}

var defaultBounds = bounds{
	poll:        5 * time.Second,
	lookUp:      5 * time.Second,
	gone:        500 * time.Millisecond,
	first:       50 * time.Millisecond,
	most:        5 * time.Second,
	resendFirst: 500 * time.Millisecond,
	resendMost:  5 * time.Second,
	confirm:     time.Minute,
	nak:         2 * time.Second,
	expires:     30 * time.Second,
	pulse:       2 * time.Second,
}
