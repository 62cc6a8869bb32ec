package queue

import "time"

// maxPushes is how often a request is pushed again before what owes it is given up.
const maxPushes = 3

// wait notes that r was pushed and that the next attempt on it is to begin. The caller holds mu.
func (r *record[request]) wait(now time.Duration, tick uint64) {
	if r.pushTick == 0 {
		r.pushed, r.pushTick = now, tick
	}
}

// Lost is a message that was given up because no attempt begins on one of its requests.
type Lost[request comparable] struct {
	Message Message[request]
	Request request
	Works   bool // an attempt has begun on a request pushed later: the engine works, and has dropped this one
}

// Overdue finds the requests of the group on which no attempt has begun for bound since they were
// pushed, though the engine had the chance: it runs none and neither began nor ended one for that long,
// or it began one on a request that was pushed later. An engine drops requests like that when it does not
// retry an error, when its queue was replaced, or when it runs no workers.
//
// again are those to be pushed again. What owes a request that was pushed three times over is forgotten
// and returned in lost, to be given back. After failed attempts the bound is longer, since engines back
// off: it doubles with each, up to 64 times. An engine that says which requests it holds (see
// [Tracker.SetQueued]) is believed.
func (g *Group[request]) Overdue(bound time.Duration) (again []request, lost []Lost[request]) {
	t := g.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if g.stopped != 0 {
		return nil, nil
	}
	stalled := t.running == 0 && now-t.active > bound
	for _, r := range t.records {
		if r.running > 0 || r.pushTick == 0 || now-r.pushed <= bound<<min(r.failures, 6) {
			continue
		}
		if !stalled && r.pushTick > t.passed {
			continue
		}
		if t.queued != nil && t.queued(r.req) {
			continue
		}
		mine := false
		for l := r.first; l != nil && !mine; l = l.next {
			mine = l.entry.group == g
		}
		if !mine {
			continue
		}
		if r.pushes < maxPushes {
			r.pushes++
			r.pushed = now
			again = append(again, r.req)
			continue
		}
		works := r.pushTick <= t.passed
		var next *link[request]
		for l := r.first; l != nil; l = next {
			next = l.next
			if l.entry.group == g && l.entry.forget(t) {
				lost = append(lost, Lost[request]{Message: l.entry.msg, Request: r.req, Works: works})
			}
		}
	}
	return again, lost
}
