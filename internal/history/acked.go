package history

import "time"

// The rules about acks.
const (
	// S1 is about acks that came too early.
	S1 Rule = "S1"
	// S7 is about messages that cannot be decoded.
	S7 Rule = "S7"
)

// acked checks the first ack that the replica gave the message; those that repeat it need no more.
func (r *Report) acked(v *view) {
	for _, s := range v.signals {
		if s.Kind != Ack {
			continue
		}
		p := v.message.publish
		if p.Garbage {
			r.add(S7, v.message, v.replica, "acked at %v what nobody can decode", s.At)
			return
		}
		if len(p.Owes) == 0 {
			return
		}
		registered, ok := v.registered(s.At)
		if !ok {
			r.add(S1, v.message, v.replica, "acked at %v what it had not mapped, or only without success", s.At)
			return
		}
		for _, req := range p.Owes {
			if !r.index.reconciled(v.replica, req, registered, s.At) && !r.index.superseded(v, req, s.At) {
				r.add(S1, v.message, v.replica, "acked at %v what it had mapped at %v, and no successful attempt on %q began and ended in between",
					s.At, registered, req)
			}
		}
		return
	}
}

// registered is when the replica first mapped the message, no later than by.
func (v *view) registered(by time.Duration) (time.Duration, bool) {
	for _, m := range v.mappings {
		if !m.Failed && m.End <= by {
			return m.End, true
		}
	}
	return 0, false
}

// reconciled reports whether a successful attempt of the replica on req began at or after from and ended
// by to.
func (x *index) reconciled(replica, req string, from, to time.Duration) bool {
	return x.ended(replica, req, from, to, Success)
}

func (x *index) ended(replica, req string, from, to time.Duration, o Outcome) bool {
	for _, a := range after(x.attempts[req][replica], from) {
		if a.Begin > to {
			return false
		}
		if a.Outcome == o && a.End <= to {
			return true
		}
	}
	return false
}

// superseded reports whether, by the time given, the replica had mapped another message after this one that
// owes req too, and had not given its verdict on that.
func (x *index) superseded(v *view, req string, by time.Duration) bool {
	if !x.Supersede {
		return false
	}
	from, ok := v.registered(by)
	if !ok {
		return false
	}
	for _, m := range x.byRequest[req] {
		newer := m.views[v.replica]
		if m == v.message || newer == nil {
			continue
		}
		for _, again := range newer.mappings {
			if !again.Failed && again.End > from && again.End <= by && !newer.judgedBetween(again.End, by-x.Slack) {
				return true
			}
		}
	}
	return false
}
