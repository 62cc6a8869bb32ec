package main

import (
	"fmt"
	"slices"
	"time"
)

// verdict is what the run comes to.
type verdict struct {
	published, relevant int
	columns             [2]column
}

// column is what is said of one controller.
type column struct {
	reconciled int
	lost       int
	first      int64 // the number of the first change lost

	// The lost ones, by what happened to them.
	inProcess, whileDown, whileCut, elsewhere int
	// And by what made up for them.
	byEvent, byList, closed, never int

	redelivered uint64
	returns     [2]comebackTime // by cause
	p50, p99    time.Duration
	behind      int // Stages whose status is wrong
	unsettled   int // messages
}

type comebackTime struct {
	happened, done bool
	took           time.Duration
}

// verdict draws up the accounts.
func (l *ledger) verdict() verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := verdict{published: l.sent, relevant: l.relevant}
	for i, a := range l.accounts {
		c := &v.columns[i]
		c.reconciled, c.redelivered, c.behind = a.count, a.redelivered, l.behind(a)
		for n := range l.events {
			e, number := &l.events[n], int64(n+1)
			if !e.matters || e.ended.IsZero() || int(number) < len(a.reconciled) && a.reconciled[number] {
				continue
			}
			if c.lost++; c.lost == 1 {
				c.first = number
			}
			c.blame(a, e)
			c.repaired(a.updates[e.stage], number)
		}
		for _, r := range a.returns {
			took, done := r.took()
			c.returns[r.cause] = comebackTime{happened: true, done: done, took: took}
		}
		c.p50, c.p99 = percentiles(a.undisturbed(l.events))
	}
	return v
}

// blame counts a lost event by what happened to it.
func (c *column) blame(a *account, e *event) {
	const (
		held  = 5 * time.Second // what a process held when it was killed had come not long before
		onWay = time.Second     // what was on the way when the link was cut had been published just before
	)
	for i := range a.outages {
		o := &a.outages[i]
		before := o.begun.Sub(e.ended) // below 0 if it was not
		switch {
		case o.cause == wasKilled && e.during(o):
			c.whileDown++
			return
		case o.cause == wasKilled && before > 0 && before < held:
			c.inProcess++
			return
		case o.cause == wasCut && (e.during(o) || before > 0 && before < onWay):
			c.whileCut++
			return
		}
	}
	c.elsewhere++
}

// repaired counts a lost event by which attempt first saw what it was about.
func (c *column) repaired(updates []update, number int64) {
	for _, u := range updates {
		switch {
		case u.before >= number || u.seen < number:
			continue
		case u.events > 0:
			c.byEvent++
		case u.open == 0:
			c.closed++
			c.byList++
		default:
			c.byList++
		}
		return
	}
	c.never++
}

// undisturbed are the latencies of events that were published while nothing was out of order, nor about to
// be, nor had just been: what a process held when it was killed was late, if it was not lost; and at start
// and after an outage a list of all Stages and what has piled up are worked off.
func (a *account) undisturbed(events []event) []time.Duration {
	const moment = time.Second
	disturbed := slices.Clone(a.outages)
	for i := range disturbed {
		o := &disturbed[i]
		o.begun = o.begun.Add(-moment)
		if !o.end.IsZero() {
			o.end = o.end.Add(moment)
		}
	}
	if len(events) > 0 {
		disturbed = append(disturbed, outage{begun: events[0].begun, end: events[0].begun.Add(moment)})
	}
	var list []time.Duration
	for _, d := range a.latencies {
		e := &events[d.number-1]
		if !slices.ContainsFunc(disturbed, func(o outage) bool { return e.during(&o) }) {
			list = append(list, d.took)
		}
	}
	return list
}

// recent are the latencies of what was reconciled last.
func (a *account) recent() []time.Duration {
	const most = 1000
	list := make([]time.Duration, 0, most)
	for _, d := range a.latencies[max(0, len(a.latencies)-most):] {
		list = append(list, d.took)
	}
	return list
}

// percentiles sorts list and returns its 50th and 99th percentile; 0 if it is empty.
func percentiles(list []time.Duration) (p50, p99 time.Duration) {
	if len(list) == 0 {
		return 0, 0
	}
	slices.Sort(list)
	at := func(p int) time.Duration { return list[(len(list)*p+99)/100-1] }
	return at(50), at(99)
}

// failure says what the durable controller did wrong, and what to do about it; nil if nothing.
func (v *verdict) failure(seed uint64) error {
	c := &v.columns[jetStream]
	report := fmt.Sprintf("that must not happen: please run it again with -seed %d and report it, with the table above", seed)
	switch {
	case c.lost > 0:
		return fmt.Errorf("the controller on JetStream lost %d of %d events, the first of them change %d; %s",
			c.lost, v.relevant, c.first, report)
	case c.behind > 0:
		return fmt.Errorf("the controller on JetStream lost no event and yet left %d Stages wrong; %s", c.behind, report)
	case c.unsettled > 0:
		return fmt.Errorf("the controller on JetStream reconciled every event and left %d messages unsettled; %s",
			c.unsettled, report)
	}
	return nil
}
