package history

import "time"

// S4 is about copies: what a replica holds, or has decided, it does not work on again.
const S4 Rule = "S4"

// absorbed checks that each mapping of the message but the first was due: the one before had failed, or the
// message had been given back. After a verdict it may only be handed out again and mapped when the durable
// was made anew, since what was settled long ago is forgotten.
func (r *Report) absorbed(v *view) {
	for i := 1; i < len(v.mappings); i++ {
		before, again := v.mappings[i-1], v.mappings[i]
		if before.Failed || r.index.HoldLimit {
			continue
		}
		switch {
		case v.signalled(Nak, before.End, again.Begin+r.index.Slack):
			// Given back in between; the copy that came back may have overtaken the record of that.
		case v.judgedBetween(0, again.Begin-r.index.Slack):
			if r.index.Remade == 0 {
				r.add(S4, v.message, v.replica, "mapped it again at %v, though it had given its verdict and the durable is the same", again.Begin)
			}
		case v.judgedBetween(again.Begin-r.index.Slack, again.Begin):
			// Which came first is too close to tell.
		default:
			r.add(S4, v.message, v.replica, "mapped it at %v and again at %v, though it held it all the time", before.End, again.Begin)
		}
	}
}

func (v *view) signalled(kind Kind, from, to time.Duration) bool {
	for _, s := range v.signals {
		if s.Kind == kind && s.At >= from && s.At <= to {
			return true
		}
	}
	return false
}

func (v *view) judgedBetween(from, to time.Duration) bool {
	return v.signalled(Ack, from, to) || v.signalled(Term, from, to)
}
