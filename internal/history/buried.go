package history

// S8 is about dead letters.
const S8 Rule = "S8"

// buried checks the first term that the replica gave the message: the dead letter must have been confirmed
// before, and what did not die must have been reconciled.
func (r *Report) buried(v *view) {
	for _, s := range v.signals {
		if s.Kind != Term {
			continue
		}
		whole := false
		dead := map[string]bool{}
		for _, l := range v.letters {
			// The answer was recorded before the replica had it, and the term after the replica
			// sent it: what is right shows as right.
			if at := r.index.confirmed(l.Reply); at == 0 || at > s.At {
				continue
			}
			whole = whole || l.Request == ""
			dead[l.Request] = true
		}
		if len(dead) == 0 {
			r.add(S8, v.message, v.replica, "terminated it at %v before a dead letter of it was confirmed (%d were sent)", s.At, len(v.letters))
			return
		}
		if whole {
			return
		}
		registered, ok := v.registered(s.At)
		for _, req := range v.message.publish.Owes {
			if dead[req] || ok && r.index.reconciled(v.replica, req, registered, s.At) || r.index.superseded(v, req, s.At) {
				continue
			}
			r.add(S8, v.message, v.replica, "terminated it at %v though %q is neither a dead letter nor reconciled since it was mapped (%v)",
				s.At, req, registered)
		}
		return
	}
}
