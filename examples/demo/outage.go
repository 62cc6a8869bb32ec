package main

import "time"

// outage is a time during which a controller received nothing.
type outage struct {
	cause      cause
	begun, end time.Time
}

type cause int

const (
	wasKilled cause = iota // its process was killed
	wasCut                 // its process lived, its link to NATS was cut
)

// begin notes that a controller receives nothing from now on.
func (l *ledger) begin(variant int, c cause, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[variant]
	a.outages = append(a.outages, outage{cause: c, begun: at})
}

// end notes that it receives again.
func (l *ledger) end(variant int, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.accounts[variant].outages; len(o) > 0 && o[len(o)-1].end.IsZero() {
		o[len(o)-1].end = at
	}
}

// during reports whether some of the event's publishing fell into the outage.
func (e *event) during(o *outage) bool {
	return !e.ended.Before(o.begun) && (o.end.IsZero() || e.begun.Before(o.end))
}

// comeback is how a controller catches up once it is back: with all that was committed before.
type comeback struct {
	cause  cause
	from   time.Time
	target []int64 // by Stage: the change that its status is to take into account
	left   int     // Stages whose status does not
	behind int     // Stages that it has brought up to date since
	last   time.Time
}

// comeBack begins to measure how long a controller takes, from now on, to catch up.
func (l *ledger) comeBack(variant int, why cause, from time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[variant]
	c := &comeback{cause: why, from: from, target: append([]int64(nil), l.last...), last: from}
	for i, seen := range a.seen {
		if seen < c.target[i] {
			c.left++
		}
	}
	a.returns = append(a.returns, c)
}

// step notes that the status of a Stage went from taking change was into account to change is.
func (c *comeback) step(stage int, was, is int64, at time.Time) {
	if t := c.target[stage]; was >= t || is < t {
		return
	}
	c.left--
	if at.After(c.from) { // else it was written before, and is only read now
		c.behind++
	}
	if at.After(c.last) {
		c.last = at
	}
}

// took is how long it took, once all is caught up.
func (c *comeback) took() (time.Duration, bool) { return c.last.Sub(c.from), c.left == 0 }
