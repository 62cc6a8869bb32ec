package list

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// retryFirst is the pause after the first failure of a list.
	retryFirst = time.Second
	// settle is how long a list that was asked for waits for others to ask too: what makes one source
	// recover (a server that restarts) makes the others, within moments.
	settle = 100 * time.Millisecond
	// spacing is the least time between a list and one that was asked for, so that a source that
	// recovers over and over does not make a list source that lists over and over.
	spacing = 5 * time.Second
)

// pace decides when to list next, counted from the end of the last list. It belongs to one goroutine.
type pace struct {
	every  time.Duration // zero or less: never
	jitter float64

	last     time.Time     // when the last list ended
	pause    time.Duration // from then to the next one
	failures int           // in a row
	backoff  wait.Backoff  // continues while lists fail
}

// newPace starts with a list that just succeeded.
func newPace(every time.Duration, jitter float64) *pace {
	p := &pace{every: every, jitter: jitter}
	p.succeeded()
	return p
}

func (p *pace) succeeded() {
	p.last, p.failures = time.Now(), 0
	p.pause = p.every
	if p.every > 0 && p.jitter > 0 { // to wait.Jitter, a fraction of 0 is one of 1
		p.pause = max(p.every, wait.Jitter(p.every, p.jitter)) // which overflows for what means never
	}
}

func (p *pace) failed() {
	if p.failures == 0 {
		p.backoff = wait.Backoff{
			Duration: min(retryFirst, p.longest()), Factor: 2, Jitter: p.jitter,
			Cap: p.longest(), Steps: math.MaxInt,
		}
	}
	p.failures++
	p.last = time.Now()
	p.pause = min(p.backoff.Step(), p.longest()) // the jitter comes on top of the Cap
}

// longest is how long a pause may be. A list that was asked for is retried without a period, too.
func (p *pace) longest() time.Duration {
	if p.every > 0 {
		return p.every
	}
	return defaultEvery
}

// next is how long to wait for the next planned list; false when none is planned.
func (p *pace) next() (time.Duration, bool) {
	if p.every <= 0 && p.failures == 0 {
		return 0, false
	}
	return max(0, p.pause-time.Since(p.last)), true
}

// soon is how long to wait for a list that was asked for.
func (p *pace) soon() time.Duration {
	return max(min(settle, p.longest()), min(spacing, p.longest())-time.Since(p.last))
}
