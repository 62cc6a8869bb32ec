package history

import (
	"cmp"
	"slices"
	"time"
)

// The rules about what may follow what on a message's reply.
const (
	// L1 is about heartbeats.
	L1 Rule = "L1"
	// L5 is about naks.
	L5 Rule = "L5"
)

// beaten checks that no heartbeat follows the verdict. A message that was handed out again may be held
// again, when the durable was made anew: only what was handed out once is judged.
func (r *Report) beaten(v *view) {
	if len(v.deliveries) > 1 {
		return
	}
	var verdict *Signal
	for _, s := range v.signals {
		switch {
		case s.Verdict():
			verdict = s
		case s.Kind == Beat && verdict != nil:
			r.add(L1, v.message, v.replica, "sent a heartbeat at %v after its verdict at %v", s.At, verdict.At)
			return
		}
	}
}

// rounds is how many rounds of heartbeats in a row may leave a message out that the replica holds: one that was
// begun before it came, one that was under way when it was decided.
const rounds = 2

// kept checks that the replica sent heartbeats for the message while it held it, as often as for others: from
// its mapping to the verdict or nak, which show that it held it all the time, but no longer than until an attempt
// may have decided it: the verdict may be sent later. A round is told by the one heartbeat in it that wants to
// be answered.
func (r *Report) kept(v *view) {
	if len(v.mappings) != 1 || v.mappings[0].Failed || len(v.signals) == 0 || r.index.Supersede {
		return
	}
	if len(v.message.publish.Owes) == 0 {
		return // decided as soon as it was mapped
	}
	from := v.mappings[0].End
	decided := v.signals[len(v.signals)-1].At
	for _, req := range v.message.publish.Owes {
		for _, a := range after(r.index.attempts[req][v.replica], from) {
			if a.Outcome == Success || a.Outcome == Terminal || a.Outcome == Failed || a.Outcome == Panicked {
				decided = min(decided, a.End)
				break
			}
		}
	}
	missed, link := 0, 0
	next := 0
	seen := from
	for _, b := range r.index.asking[v.replica] {
		if b.At <= seen {
			continue // what a slow wire shows at one moment counts as one round
		}
		seen = b.At
		if b.At > decided {
			return
		}
		for next < len(v.signals) && v.signals[next].At <= b.At {
			if v.signals[next].Kind != Beat {
				return
			}
			next++
			missed = -1 // this round has it
		}
		if next == len(v.signals) {
			return // nothing shows that it is still held
		}
		if b.Link != link {
			link, missed = b.Link, -1 // the rest of the round may have been lost with a connection
		}
		if missed++; missed > rounds {
			r.add(L1, v.message, v.replica, "held it since %v and left it out of %d rounds of heartbeats, until %v", from, missed, b.At)
			return
		}
	}
}

// leased checks each nak of the message: it must not follow a verdict, there may be no more of them than
// hand-outs, and the lease must not have lapsed before it.
func (r *Report) leased(v *view) {
	var verdict *Signal
	naks := 0
	for i, s := range v.signals {
		if s.Verdict() {
			verdict = s
		}
		if s.Kind != Nak {
			continue
		}
		naks++
		switch {
		case verdict != nil && !v.mappedBetween(verdict.At, s.At):
			r.add(L5, v.message, v.replica, "gave it back at %v after its verdict at %v", s.At, verdict.At)
			return
		case naks > len(v.deliveries):
			r.add(L5, v.message, v.replica, "gave it back %d times, but was handed it %d times", naks, len(v.deliveries))
			return
		}
		from, gap := r.lapse(v, v.signals[:i], s)
		if gap > r.index.AckWait+r.index.Slack {
			r.add(L5, v.message, v.replica, "gave it back at %v though its lease may have lapsed: nothing the server had confirmed was sent "+
				"in the %v from %v on", s.At, gap, from)
			return
		}
	}
}

// mappedBetween reports whether the replica began to map the message between the two times.
func (v *view) mappedBetween(from, to time.Duration) bool {
	for _, m := range v.mappings {
		if m.Begin >= from && m.Begin <= to {
			return true
		}
	}
	return false
}

// lapse returns the longest time, and when it began, in which the replica could not be certain of its
// lease, from the last copy that it had received before the nak until then.
//
// It is certain of it for AckWait from when it sent a heartbeat that was confirmed. So the time from
// sending one to the confirmation of the next counts, and from sending the last to the nak. Heartbeats are
// recorded after they were sent and answers before they arrive, which makes the gaps between them shorter
// than they were; only the first and the last gap can be too long, by the delay of a record.
func (r *Report) lapse(v *view, before []*Signal, nak *Signal) (from, longest time.Duration) {
	// The copy answered, or one that came later: each renews the lease.
	var since time.Duration
	for _, d := range v.deliveries {
		if d.At > nak.At {
			continue
		}
		since = max(since, r.index.received(v.replica, d.At))
	}
	sent := r.index.sent(v.replica, nak.At)
	widen := func(to time.Duration) {
		if to-since > longest {
			from, longest = since, to-since
		}
	}
	beats := make([]*Signal, 0, len(before))
	for _, s := range before {
		if s.Kind == Beat && s.At > since {
			beats = append(beats, s)
		}
	}
	rounds := r.index.beats[v.replica]
	for len(beats) > 0 {
		// The first of our heartbeats stands confirmed by the first answered heartbeat that was sent with
		// it or after it on the same connection, and so do ours up to that one.
		i, _ := slices.BinarySearchFunc(rounds, beats[0], func(rd round, s *Signal) int {
			if c := cmp.Compare(rd.beat.Link, s.Link); c != 0 {
				return c
			}
			return cmp.Compare(rd.beat.At, s.At)
		})
		if i == len(rounds) || rounds[i].beat.Link != beats[0].Link {
			beats = beats[1:]
			continue
		}
		n := 0
		for n < len(beats) && beats[n].Link == rounds[i].beat.Link && beats[n].At <= rounds[i].beat.At {
			n++
		}
		if rounds[i].answered < sent {
			widen(rounds[i].answered)
			since = max(since, beats[n-1].At)
		}
		beats = beats[n:]
	}
	widen(sent)
	return from, longest
}
