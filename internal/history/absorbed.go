package history

import "time"

// S4 is about copies: what a replica holds, or has decided, it does not work on again.
const S4 Rule = "S4"

// absorbed checks that each mapping of the message but the first was due: the one before had failed, or the
// message had been given back. After a verdict it may only be mapped again if the verdict was given long ago,
// since replicas forget those far below the ack floor, and the durable was made anew.
func (r *Report) absorbed(v *view) {
	for i := 1; i < len(v.mappings); i++ {
		before, again := v.mappings[i-1], v.mappings[i]
		if before.Failed || r.index.HoldLimit || r.index.forgot(v.replica, before.End, again.Begin) {
			continue
		}
		switch {
		case v.signalled(Nak, before.End, again.Begin+r.index.Slack):
			// Given back in between; the copy that came back may have overtaken the record of that.
		case v.judgedBetween(0, again.Begin-r.index.Slack):
			if r.index.recent(v.message, again.Begin) {
				r.add(S4, v.message, v.replica, "mapped it again at %v, though it had given its verdict", again.Begin)
			}
		case v.judgedBetween(again.Begin-r.index.Slack, again.Begin):
			// Which came first is too close to tell.
		default:
			r.add(S4, v.message, v.replica, "mapped it at %v and again at %v, though it held it all the time", before.End, again.Begin)
		}
	}
}

// remembered is how far, in sequences, below what was handed out last a replica must remember its verdicts.
const remembered = 1024

// recent reports whether, at that time, nothing much newer than the message had been handed out.
func (x *index) recent(m *message, at time.Duration) bool {
	for i := range x.Deliveries {
		d := &x.Deliveries[i]
		if d.At < at && d.Message.Seq >= m.id.Seq+remembered && d.Message.Stored >= m.id.Stored {
			return false
		}
	}
	return true
}

// forgot reports whether the replica forgot everything it held between the two times. A replica that hears late
// of a stream that was made anew may have been handed messages of that already: it forgets them too, since it
// cannot tell them from those of the old one, and works on them again.
func (x *index) forgot(replica string, from, to time.Duration) bool {
	for _, f := range x.Forgets {
		if f.Replica == replica && f.At >= from && f.At <= to+x.Slack {
			return true
		}
	}
	return false
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
