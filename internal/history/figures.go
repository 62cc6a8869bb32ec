package history

import (
	"fmt"
	"io"
	"time"
)

// Figures sum a history up.
type Figures struct {
	Events      int // changes that were published and confirmed
	Unconfirmed int // calls that got no answer: their event may be stored or not
	Duplicates  int // calls that the stream answered with "duplicate"
	Stored      int // messages seen, of every incarnation of the stream
	Excluded    int // confirmed changes that were purged or deleted with the stream
	Deliveries  int
	Redelivered int // deliveries with a count above 1
	Absorbed    int // copies that were neither mapped anew nor given back
	Mappings    int
	MapFailures int
	Attempts    int
	Outcomes    map[Outcome]int
	Acks        int
	Naks        int
	Terms       int
	Heartbeats  int
	Letters     int // dead letters confirmed
	Dead        int // messages that ended as dead letters
	Lost        int
	Misdirected int           // events that a verdict meant for an earlier stream of the same name may have settled
	Waits       int           // calls that waited for an event and were told that it is reconciled
	Differing   int           // messages on which one replica gave two verdicts that differ
	Slowest     time.Duration // the longest from the begin of a publish to the first ack
}

// count fills in what the rules have not.
func (r *Report) count() {
	x, f := r.index, &r.Figures
	f.Outcomes = map[Outcome]int{}
	confirmed := map[uint64]bool{}
	for i := range x.Publishes {
		p := &x.Publishes[i]
		switch {
		case !p.Confirmed:
			f.Unconfirmed++
		case p.Duplicate:
			f.Duplicates++
			confirmed[p.Change] = true
		default:
			confirmed[p.Change] = true
		}
	}
	f.Events = len(confirmed)
	f.Stored, f.Deliveries = len(x.order), len(x.Deliveries)
	for i := range x.Deliveries {
		if x.Deliveries[i].Count > 1 {
			f.Redelivered++
		}
	}
	f.Mappings, f.Attempts = len(x.Mappings), len(x.Attempts)
	for i := range x.Mappings {
		if x.Mappings[i].Failed {
			f.MapFailures++
		}
	}
	for i := range x.Attempts {
		f.Outcomes[x.Attempts[i].Outcome]++
	}
	for i := range x.Signals {
		switch x.Signals[i].Kind {
		case Ack:
			f.Acks++
		case Nak:
			f.Naks++
		case Term:
			f.Terms++
		case Beat:
			f.Heartbeats++
		}
	}
	for i := range x.Letters {
		if x.confirmed(x.Letters[i].Reply) != 0 {
			f.Letters++
		}
	}
	for _, m := range x.order {
		for _, v := range m.order {
			if n := len(v.deliveries) - len(v.mappings); n > 0 && len(v.mappings) > 0 {
				f.Absorbed += n
			}
			if v.differing() {
				f.Differing++
			}
		}
		if m.publish != nil {
			f.Slowest = max(f.Slowest, m.took())
		}
	}
}

// took is the time from the begin of the message's publish to its first ack, 0 if there was none.
func (m *message) took() time.Duration {
	first := time.Duration(0)
	for _, v := range m.order {
		for _, s := range v.signals {
			if s.Kind == Ack && (first == 0 || s.At < first) {
				first = s.At
			}
		}
	}
	return max(0, first-m.publish.Begin)
}

// Add adds the figures of another history.
func (f *Figures) Add(o Figures) {
	f.Events += o.Events
	f.Unconfirmed += o.Unconfirmed
	f.Duplicates += o.Duplicates
	f.Stored += o.Stored
	f.Excluded += o.Excluded
	f.Deliveries += o.Deliveries
	f.Redelivered += o.Redelivered
	f.Absorbed += o.Absorbed
	f.Mappings += o.Mappings
	f.MapFailures += o.MapFailures
	f.Attempts += o.Attempts
	if f.Outcomes == nil {
		f.Outcomes = map[Outcome]int{}
	}
	for outcome, n := range o.Outcomes {
		f.Outcomes[outcome] += n
	}
	f.Acks += o.Acks
	f.Naks += o.Naks
	f.Terms += o.Terms
	f.Heartbeats += o.Heartbeats
	f.Letters += o.Letters
	f.Dead += o.Dead
	f.Lost += o.Lost
	f.Misdirected += o.Misdirected
	f.Differing += o.Differing
	f.Waits += o.Waits
	f.Slowest = max(f.Slowest, o.Slowest)
}

// Print writes the figures as a table.
func (f *Figures) Print(w io.Writer) {
	row := func(name string, format string, args ...any) {
		fmt.Fprintf(w, "  %-28s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("events confirmed", "%d (%d more calls unanswered, %d duplicates)", f.Events, f.Unconfirmed, f.Duplicates)
	row("purged or deleted", "%d of them", f.Excluded)
	row("deliveries", "%d, %d of them redeliveries", f.Deliveries, f.Redelivered)
	row("absorbed copies", "%d", f.Absorbed)
	row("mappings", "%d, %d failed", f.Mappings, f.MapFailures)
	row("attempts", "%d: %d succeeded, %d unfinished, %d failed, %d panicked, %d terminal, %d killed", f.Attempts,
		f.Outcomes[Success], f.Outcomes[Unfinished], f.Outcomes[Failed], f.Outcomes[Panicked], f.Outcomes[Terminal], f.Outcomes[Running])
	row("on the wire", "%d acks, %d terms, %d naks, %d heartbeats", f.Acks, f.Terms, f.Naks, f.Heartbeats)
	row("dead letters", "%d stored, for %d messages", f.Letters, f.Dead)
	row("slowest event", "%v from publish to ack", f.Slowest.Round(time.Millisecond))
	row("waited for", "%d events, with success", f.Waits)
	row("lost", "%d", f.Lost)
	row("hit by a stale verdict", "%d (meant for an earlier stream of the same name)", f.Misdirected)
	row("second verdicts that differ", "%d", f.Differing)
}
