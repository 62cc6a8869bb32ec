package history

import "time"

// T2 is about events that were lost.
const T2 Rule = "T2"

// lost checks that every event that was published and confirmed is still in the stream, and that everything
// in the stream has a verdict and was reconciled since it was published.
func (r *Report) lost() {
	x := r.index
	stored := map[uint64]bool{} // changes
	for _, m := range x.order {
		if m.final && m.publish != nil {
			stored[m.publish.Change] = true
			r.unreconciled(m)
		}
	}
	told := map[uint64]bool{}
	for i := range x.Publishes {
		p := &x.Publishes[i]
		if !p.Confirmed || stored[p.Change] || told[p.Change] {
			continue
		}
		told[p.Change] = true
		if x.wiped(p) {
			r.Figures.Excluded++
			r.skipped(p)
			continue
		}
		r.Figures.Lost++
		r.add(T2, nil, "", "change %d of %q was confirmed as message %d (call %d, %v to %v) and is not in the stream, though nothing wiped it",
			p.Change, p.Key, p.Seq, p.Call, p.Begin, p.End)
	}
	r.duplicates()
}

// wiped reports whether the event may have been stored before a wipe ended.
func (x *index) wiped(p *Publish) bool {
	for _, w := range x.Wipes {
		if p.Begin <= w.End {
			return true
		}
	}
	return false
}

// skipped checks an event that was wiped: if the durable's floor had passed it by then, it must have had a
// verdict. Whether that was right S1 says.
func (r *Report) skipped(p *Publish) {
	x := r.index
	for _, f := range x.Floors {
		if f.At < p.End {
			continue
		}
		for _, w := range x.Wipes {
			if p.Begin <= w.End && w.Begin <= f.At {
				return // it may have been gone by then, or of another incarnation of the stream
			}
		}
		if p.Seq > f.Seq {
			continue
		}
		for _, m := range x.byChange[p.Change] {
			if m.decided() {
				return
			}
		}
		if x.misdirected(p) {
			r.Figures.Misdirected++
			return
		}
		r.Figures.Lost++
		r.add(T2, nil, "", "change %d of %q was confirmed as message %d (call %d, %v to %v); at %v the durable's floor was %d, and nobody had given a verdict on it",
			p.Change, p.Key, p.Seq, p.Call, p.Begin, p.End, f.At, f.Seq)
		return
	}
}

// misdirected reports whether a verdict that was meant for the message of the same sequence in an earlier
// stream of the same name may have settled the event: it reached the server after that stream was deleted. The
// server looks at the sequence only, so what is under way when a stream is made anew hits whatever it finds,
// and whoever sent it cannot help it. (Who sends such a verdict and ought to know better violates L4.)
func (x *index) misdirected(p *Publish) bool {
	if !p.Confirmed {
		return false
	}
	from, deleted := time.Duration(0), false
	for _, w := range x.Wipes {
		if w.Deleted && w.Begin <= p.End {
			from, deleted = max(from, w.Begin), true
		}
	}
	if !deleted {
		return false
	}
	for _, m := range x.bySeq[p.Seq] {
		if m.publish == nil || m.publish.Change == p.Change || m.publish.Begin > p.Begin {
			continue
		}
		for _, v := range m.order {
			for _, s := range v.signals {
				if s.Verdict() && x.passed(s) >= from {
					return true
				}
			}
		}
	}
	return false
}

// passed is when the verdict was let through to the server, at the latest.
func (x *index) passed(s *Signal) time.Duration {
	at := s.At + x.Slack
	for _, l := range x.lates[s.Message] {
		if l.Replica == s.Replica {
			at = max(at, l.Passed)
		}
	}
	return at
}

// decided reports whether any replica has given a verdict on the message.
func (m *message) decided() bool {
	for _, v := range m.order {
		for _, s := range v.signals {
			if s.Verdict() {
				return true
			}
		}
	}
	return false
}

// unreconciled checks a message that is in the stream at the end.
func (r *Report) unreconciled(m *message) {
	acked, termed := false, false
	dead := map[string]bool{}
	for _, v := range m.order {
		for _, s := range v.signals {
			acked = acked || s.Kind == Ack
			termed = termed || s.Kind == Term
		}
		for _, l := range v.letters {
			if r.index.confirmed(l.Reply) != 0 {
				dead[l.Request] = true
			}
		}
	}
	if !acked && !termed {
		if r.index.misdirected(m.publish) {
			r.Figures.Misdirected++
			return
		}
		if !r.index.Final.TimedOut || r.index.Final.NumPending+uint64(r.index.Final.NumAckPending) == 0 {
			r.Figures.Lost++
			r.add(T2, m, "", "it is in the stream, nobody has given a verdict on it, and the durable is done with it")
		}
		return
	}
	if termed {
		r.Figures.Dead++
	}
	if dead[""] && termed {
		return
	}
	x := r.index
	begun := x.changes[m.publish.Change]
	for _, req := range m.publish.Owes {
		if dead[req] && termed {
			continue
		}
		found := false
		for _, list := range x.attempts[req] {
			for _, a := range after(list, begun) {
				if a.Outcome == Success && a.Seen >= m.publish.Change {
					found = true
					break
				}
			}
			if found {
				break
			}
		}
		if !found && x.diedLater(m, req) {
			continue
		}
		if !found {
			r.Figures.Lost++
			r.add(T2, m, "", "no successful attempt on %q began after it was published (%v) and saw change %d", req, begun, m.publish.Change)
		}
	}
}

// diedLater reports whether another message that owes req too, and may have superseded m, is a dead letter.
func (x *index) diedLater(m *message, req string) bool {
	for _, newer := range x.byRequest[req] {
		if newer == m {
			continue
		}
		for _, v := range newer.order {
			for _, l := range v.letters {
				if (l.Request == req || l.Request == "") && x.confirmed(l.Reply) != 0 {
					return true
				}
			}
		}
	}
	return false
}

// duplicates checks that what was published twice under one message id is stored once and said to be so.
// Only where nothing was wiped since: a stream that was purged may have forgotten the id.
func (r *Report) duplicates() {
	x := r.index
	first := map[uint64]*Publish{}
	for i := range x.Publishes {
		p := &x.Publishes[i]
		if !p.Confirmed {
			continue
		}
		before, ok := first[p.Change]
		if !ok {
			first[p.Change] = p
			continue
		}
		if x.wiped(before) {
			continue
		}
		if p.Begin > before.End && (!p.Duplicate || p.Seq != before.Seq) {
			r.add(T2, nil, "", "change %d was published again (call %d) and stored as %d (duplicate: %t), but was stored as %d before",
				p.Change, p.Call, p.Seq, p.Duplicate, before.Seq)
		}
	}
}
