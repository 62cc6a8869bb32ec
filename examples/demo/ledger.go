package main

import (
	"sync"
	"time"
)

// ledger is what the demo knows of a run: what was published, and what each controller has made of it.
// Its methods may be called from any goroutine.
type ledger struct {
	stages map[stageKey]int // numbers the Stages; never changes

	mu       sync.Mutex
	events   []event // by number of the change, from 1 on
	last     []int64 // by Stage: the last change that concerns it
	sent     int     // events published
	relevant int     // of those, the ones that OnUpdate lets through
	accounts [2]*account
}

// The two controllers. They differ in their event source alone.
const (
	coreNATS = iota
	jetStream
)

var names = [2]string{"core NATS", "JetStream"}

// event is one change and the publishing of it.
type event struct {
	stage        int
	matters      bool // OnUpdate lets it through
	begun, ended time.Time
}

func newLedger(stages []stageKey) *ledger {
	l := &ledger{stages: map[stageKey]int{}, last: make([]int64, len(stages))}
	for i, s := range stages {
		l.stages[s] = i
	}
	for i := range l.accounts {
		l.accounts[i] = &account{seen: make([]int64, len(stages)), updates: make([][]update, len(stages))}
	}
	return l
}

// stage is the number of a Stage, from 0 on.
func (l *ledger) stage(k stageKey) int { return l.stages[k] }

// committed notes that changes are in the database. They come in the order of their numbers.
func (l *ledger) committed(changes []change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		e := event{stage: l.stages[c.row().stage()], matters: c.matters()}
		l.events = append(l.events, e)
		if e.matters {
			l.last[e.stage] = c.Number
		}
	}
}

// publishing notes that a change is about to be published.
func (l *ledger) publishing(number int64, at time.Time) {
	l.mu.Lock()
	l.events[number-1].begun = at
	l.mu.Unlock()
}

// published notes that the stream has stored a change's event.
func (l *ledger) published(number int64, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &l.events[number-1]
	e.ended = at
	l.sent++
	if e.matters {
		l.relevant++
	}
}

// account is what is known of one controller.
type account struct {
	seen       []int64    // by Stage: the last change that its status takes into account
	updates    [][]update // by Stage: how it came to that
	reconciled []bool     // by number of the change: its event led to an attempt
	count      int        // of those
	latencies  []latency
	returns    []*comeback
	outages    []outage

	owed        int
	settled     int       // events, as the server says
	redelivered uint64    // messages that came more than once, to all its processes
	before      uint64    // of those, to processes that are gone
	active      time.Time // when it last did something
}

// update is one attempt that had to change the status of a Stage.
type update struct {
	before, seen int64 // the last change taken into account
	open         int   // PromotionRequests that had not ended
	events       int   // that caused the attempt; 0: the list alone did
}

// latency is how long an event took from being published to being reconciled.
type latency struct {
	number int64
	took   time.Duration
}

// updated notes what a controller has written of a Stage.
func (l *ledger) updated(variant int, stage stageKey, u update, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, i := l.accounts[variant], l.stages[stage]
	for _, c := range a.returns {
		c.step(i, a.seen[i], u.seen, at)
	}
	a.seen[i] = u.seen
	a.updates[i] = append(a.updates[i], u)
	a.active = time.Now()
}

// reconciled notes that a change's event has led to an attempt that succeeded.
func (l *ledger) reconciled(variant int, number int64, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[variant]
	for len(a.reconciled) <= int(number) {
		a.reconciled = append(a.reconciled, false)
	}
	a.active = time.Now()
	if a.reconciled[number] {
		return // handed out again
	}
	a.reconciled[number] = true
	a.count++
	a.latencies = append(a.latencies, latency{number, at.Sub(l.events[number-1].begun)})
}

// counts notes what a controller's process says of itself.
func (l *ledger) counts(variant int, r report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[variant]
	a.owed, a.redelivered = r.Owed, a.before+r.Redelivered
}

// killed notes that a controller's process is gone.
func (l *ledger) killed(variant int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[variant]
	a.owed, a.before = 0, a.redelivered
}

// published is the number of events that the stream has stored.
func (l *ledger) publishedCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

// settle notes how many events the server says the durable controller has settled.
func (l *ledger) settle(n int) {
	l.mu.Lock()
	l.accounts[jetStream].settled = n
	l.mu.Unlock()
}

// behind is the number of Stages whose status does not take everything into account. The caller holds mu.
func (l *ledger) behind(a *account) int {
	n := 0
	for i, seen := range a.seen {
		if seen < l.last[i] {
			n++
		}
	}
	return n
}

// quiet reports whether both controllers have nothing left to do, as far as events and lists go: every
// Stage is right, the durable one has reconciled every event, and nothing has happened for a while.
func (l *ledger) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		if l.behind(a) > 0 || time.Since(a.active) < time.Second {
			return false
		}
	}
	return l.sent == len(l.events) && l.accounts[jetStream].count >= l.relevant
}
