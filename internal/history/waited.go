package history

// S10 is about waiting for an event to be reconciled.
const S10 Rule = "S10"

// waited checks that whoever was told that an event is reconciled was told the truth: each request it owes
// had been reconciled since it was published. Where the stream was wiped meanwhile nobody can promise that.
func (r *Report) waited() {
	x := r.index
	for i := range x.Waits {
		w := &x.Waits[i]
		p := x.calls[w.Call]
		if !w.Done {
			continue
		}
		r.Figures.Waits++
		if p == nil || x.wiped(p) {
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
