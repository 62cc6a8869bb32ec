package history

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
)

// Tell writes the violations, and of the first few messages they are about everything that is known.
func (r *Report) Tell(w io.Writer, most int) {
	told := map[ID]bool{}
	for i, v := range r.Violations {
		if i == 20*most {
			fmt.Fprintf(w, "… and %d more violations\n", len(r.Violations)-i)
			return
		}
		fmt.Fprintln(w, v)
		if v.Message != (ID{}) && !told[v.Message] && len(told) < most {
			told[v.Message] = true
			r.Message(w, v.Message)
		}
	}
}

// Message writes everything that is known of one message, in order of time.
func (r *Report) Message(w io.Writer, id ID) {
	m := r.index.messages[id]
	if m == nil {
		return
	}
	type line struct {
		at   time.Duration
		text string
	}
	var lines []line
	add := func(at time.Duration, format string, args ...any) {
		lines = append(lines, line{at, fmt.Sprintf(format, args...)})
	}
	if p := m.publish; p != nil {
		add(p.Begin, "call %d: change %d of %q, which owes %q, is published", p.Call, p.Change, p.Key, p.Owes)
		if p.Confirmed {
			add(p.End, "call %d: stored as %d (duplicate: %t)", p.Call, p.Seq, p.Duplicate)
		} else {
			add(p.End, "call %d: no answer: %s", p.Call, p.Err)
		}
		m.tellAttempts(r.index, add)
	}
	for _, v := range m.order {
		for _, d := range v.deliveries {
			add(d.At, "%s ◀ delivery %d, consumer sequence %d", v.replica, d.Count, d.ConsumerSeq)
		}
		for _, p := range v.mappings {
			add(p.Begin, "%s   mapped until %v, failed: %t", v.replica, p.End, p.Failed)
		}
		for _, s := range v.signals {
			add(s.At, "%s ▶ %s of delivery %d, consumer sequence %d (connection %d)", v.replica, s.Kind, s.Count, s.ConsumerSeq, s.Link)
			for _, a := range r.index.answers[s.Reply] {
				if s.Reply != "" {
					add(a.At, "%s ◀ answer to %s, refused: %t", v.replica, s.Kind, a.Refused)
				}
			}
		}
		for _, l := range v.letters {
			add(l.At, "%s ▶ dead letter of %q", v.replica, l.Request)
			for _, a := range r.index.answers[l.Reply] {
				add(a.At, "%s ◀ answer to the dead letter, refused: %t", v.replica, a.Refused)
			}
		}
	}
	for _, l := range r.index.lates[id] {
		add(l.Passed, "%s ▶ … a verdict that was held back is let through", l.Replica)
	}
	for _, p := range r.index.Pauses {
		if m.views[p.Replica] != nil {
			add(p.Begin, "%s   is paused, until %v", p.Replica, p.End)
		}
	}
	for _, wipe := range r.index.Wipes {
		add(wipe.Begin, "  %s, until %v", wipe.What, wipe.End)
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	lines = slices.Compact(lines)
	fmt.Fprintf(w, "    message %v, in the stream at the end: %t\n", id, m.final)
	for _, l := range lines {
		fmt.Fprintf(w, "    %14v  %s\n", l.at, l.text)
	}
}

// tellAttempts tells of the attempts on what the message owes by the replicas that had it, while they did.
func (m *message) tellAttempts(x *index, add func(time.Duration, string, ...any)) {
	for _, v := range m.order {
		if len(v.deliveries) == 0 {
			continue
		}
		from, to := v.deliveries[0].At, v.deliveries[len(v.deliveries)-1].At
		for _, s := range v.signals {
			to = max(to, s.At)
		}
		for _, req := range m.publish.Owes {
			for _, a := range x.attempts[req][v.replica] {
				ended := a.End
				if a.Outcome == Running {
					ended = to
				}
				if ended < from-time.Second || a.Begin > to+time.Second {
					continue
				}
				add(a.Begin, "%s   attempt on %q until %v: %q, saw change %d", v.replica, req, a.End, a.Outcome, a.Seen)
			}
		}
	}
}
