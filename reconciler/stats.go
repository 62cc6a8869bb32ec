package reconciler

import (
	"sync/atomic"

	"github.com/levelstream/jsource/metrics"
	"github.com/levelstream/jsource/queue"
)

// Stats are what a [Controller] has counted since it started. They answer whether its resync is the
// safety net it is meant to be: ResyncChanged should stay at 0.
type Stats struct {
	Attempts uint64 // attempts that ended
	Failed   uint64 // of those, failed ones: errors, panics, terminal errors
	Panics   uint64 // of those, panics

	// ResyncOnly counts attempts that only the resync caused, on requests that no message owed.
	ResyncOnly uint64
	// ResyncChanged counts those of them whose Result says Changed: work that events missed.
	ResyncChanged uint64

	Queued int // requests that wait now, without those that are delayed
	Owed   int // requests that messages owe now
}

type stats struct {
	running       atomic.Int64
	attempts      atomic.Uint64
	outcomes      [queue.Dead + 1]atomic.Uint64
	panics        atomic.Uint64
	resyncOnly    atomic.Uint64
	resyncChanged atomic.Uint64
}

func (s *stats) count(cause queue.Cause, owed int, res Result, o queue.Outcome) {
	s.attempts.Add(1)
	s.outcomes[min(o, queue.Dead)].Add(1)
	if cause == queue.Resync && owed == 0 {
		s.resyncOnly.Add(1)
		if res.Changed && (o == queue.Success || o == queue.Unfinished) {
			s.resyncChanged.Add(1)
		}
	}
}

// Stats returns what the Controller has counted so far. It may be called at any time.
func (c *Controller[request]) Stats() Stats {
	s := Stats{
		Attempts:      c.stats.attempts.Load(),
		Failed:        c.stats.outcomes[queue.Failed].Load() + c.stats.outcomes[queue.Dead].Load(),
		Panics:        c.stats.panics.Load(),
		ResyncOnly:    c.stats.resyncOnly.Load(),
		ResyncChanged: c.stats.resyncChanged.Load(),
		Owed:          c.tracker.Owed(),
	}
	if c.open.Load() {
		s.Queued = c.queue.Len()
	}
	return s
}

// measured is what is reported of the Controller as metrics.
func (c *Controller[request]) measured(sources []*Handle) metrics.ControllerReading {
	s := c.Stats()
	r := metrics.ControllerReading{
		ResyncOnly: s.ResyncOnly, ResyncChanged: s.ResyncChanged, Queued: s.Queued, Owed: s.Owed,
		Attempts: map[string]uint64{}, Requests: map[string]uint64{},
	}
	for o := range c.stats.outcomes {
		r.Attempts[queue.Outcome(o).String()] = c.stats.outcomes[o].Load()
	}
	for _, h := range sources {
		r.Requests[h.source] = h.pushed.Load()
	}
	return r
}
