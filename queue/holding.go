package queue

import (
	"cmp"
	"slices"
	"time"
)

// Hold says what one request holds up.
type Hold[request comparable] struct {
	Request  request
	Messages int       // messages that owe it
	Since    time.Time // since when the oldest of them does
	Attempts int       // failed attempts in a row
	LastErr  error     // of the last of those
	Running  bool      // an attempt is running
}

// Owed is the number of requests that something owes.
func (t *Tracker[request]) Owed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owing
}

// Holding returns the requests that messages of the group owe, those that have held theirs longest
// first, at most limit of them. It looks at everything owed: call it to report, not on a hot path.
func (g *Group[request]) Holding(limit int) []Hold[request] {
	t := g.tracker
	t.mu.Lock()
	var holds []Hold[request]
	for _, r := range t.records {
		h := Hold[request]{Request: r.req, Attempts: int(r.failures), Running: r.running > 0}
		if r.lastErr != nil {
			h.LastErr = *r.lastErr
		}
		for l := r.first; l != nil; l = l.next {
			if l.entry.group != g {
				continue
			}
			if h.Messages == 0 {
				h.Since = t.start.Add(l.entry.since)
			}
			h.Messages++
		}
		if h.Messages > 0 {
			holds = append(holds, h)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(holds, func(a, b Hold[request]) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(b.Messages, a.Messages))
	})
	return holds[:min(limit, len(holds))]
}
