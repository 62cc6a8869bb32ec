package history

import "time"

// S10 is about waiting for an event to be reconciled.
const S10 Rule = "S10"

// stale is how long after a stream was deleted a server that was cut off may still answer for its durable: it
// takes ten seconds to notice that nobody follows it.
const stale = 15 * time.Second

// waited checks that whoever was told that an event is reconciled was told the truth: each request it owes
// had been reconciled since it was published. Where the stream was wiped meanwhile nobody can promise that,
// nor while a server may still answer for an earlier stream of the same name.
func (r *Report) waited() {
	x := r.index
	for i := range x.Waits {
		w := &x.Waits[i]
		p := x.calls[w.Call]
		if !w.Done {
			continue
		}
		r.Figures.Waits++
		if p == nil || x.wiped(p) || x.deletedBefore(w.End) {
			continue
		}
		for _, req := range p.Owes {
			if !x.reconciledByAny(req, p, w) && !x.anyDiedLater(p, req) {
				r.add(S10, nil, "", "whoever waited from %v for call %d (change %d, message %d) was told at %v that it is reconciled, but no successful "+
					"attempt on %q had begun after %v and ended by then", w.Begin, p.Call, p.Change, p.Seq, w.End, req, p.Begin)
			}
		}
	}
}

// deletedBefore reports whether the stream was deleted shortly before that time.
func (x *index) deletedBefore(at time.Duration) bool {
	for _, w := range x.Wipes {
		if w.Deleted && w.Begin <= at && at <= w.End+stale {
			return true
		}
	}
	return false
}

func (x *index) reconciledByAny(req string, p *Publish, w *Wait) bool {
	for replica := range x.attempts[req] {
		if x.ended(replica, req, x.changes[p.Change], w.End, Success) {
			return true
		}
	}
	return false
}

func (x *index) anyDiedLater(p *Publish, req string) bool {
	for _, m := range x.byChange[p.Change] {
		if x.diedLater(m, req) {
			return true
		}
	}
	return false
}
