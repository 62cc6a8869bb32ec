package queue

import (
	"sync"
	"time"
)

// Tracker keeps the account of which message owes which request. One Tracker serves all the sources of
// one controller. Its methods may be called from any goroutine; it calls back (see [Message]) without
// holding its lock.
//
// Time in it is a counter: registering, beginning an attempt and stopping each take the next tick, so
// that "began after" is never a matter of clocks.
type Tracker[request comparable] struct {
	start time.Time // time on the tracker's clock is time since then

	mu      sync.Mutex
	records map[request]*record[request]
	peak    int // the most records since the map was made
	owing   int // records that something owes
	tick    uint64

	began   uint64        // attempts begun so far
	active  time.Duration // when one last began or ended
	running int           // attempts running now
	passed  uint64        // the latest push whose request has begun since

	attempted chan struct{} // closed when the first attempt begins

	observe Observer[request]
	queued  func(request) bool
}

// burst is the number of requests above which a map is made anew once it is empty.
const burst = 4096

// record is what is known of one request while something owes it or an attempt runs on it.
type record[request comparable] struct {
	req         request
	first, last *link[request] // the messages that owe req, oldest first
	owed        int32          // how many they are

	running int32  // attempts running on req
	begun   uint64 // tick of the latest of them
	alone   uint64 // tick of the last one that began when no other was running

	pushed   time.Duration // when a source last pushed req; the attempt it waits for has not begun yet
	pushTick uint64        // and its place in the order of pushes; 0: waits for no attempt
	pushes   int32         // how often it was pushed again since an attempt began

	failures int32  // failed attempts in a row
	lastErr  *error // of the last of them; a pointer, since few have failed and many are kept
}

// link says that one message owes one request.
type link[request comparable] struct {
	entry      *Entry[request]
	record     *record[request]
	prev, next *link[request] // in record
	tick       uint64         // when it was registered
	failed     int32          // failed attempts that covered it
	state      linkState
	superseded bool // a newer message of the same group owes the request too
}

type linkState uint8

const (
	linkOwed linkState = iota
	linkDying
	linkDone
)

// NewTracker returns a Tracker in which nothing is owed.
func NewTracker[request comparable]() *Tracker[request] {
	return &Tracker[request]{
		start:     time.Now(),
		records:   map[request]*record[request]{},
		attempted: make(chan struct{}),
	}
}

// SetQueued tells the tracker how to find out whether the engine still holds a request (queued,
// delayed or being worked on). An engine that can say so is never suspected of having dropped one. Call
// it before any source starts.
func (t *Tracker[request]) SetQueued(queued func(request) bool) {
	t.mu.Lock()
	t.queued = queued
	t.mu.Unlock()
}

// Attempted is closed when the first attempt begins: there is an engine that works.
func (t *Tracker[request]) Attempted() <-chan struct{} { return t.attempted }

// Began is the number of attempts that have begun so far.
func (t *Tracker[request]) Began() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.began
}

// now is the time on the tracker's clock, which no adjustment of the wall clock moves.
func (t *Tracker[request]) now() time.Duration { return time.Since(t.start) }

func (t *Tracker[request]) next() uint64 {
	t.tick++
	return t.tick
}

// record returns the record of req, made if need be. The caller holds mu.
func (t *Tracker[request]) record(req request) *record[request] {
	r := t.records[req]
	if r == nil {
		r = &record[request]{req: req}
		t.records[req] = r
		t.peak = max(t.peak, len(t.records))
	}
	return r
}

// release drops r when nothing needs it any more. The caller holds mu.
func (t *Tracker[request]) release(r *record[request]) {
	if r.owed == 0 && r.running == 0 {
		delete(t.records, r.req)
		if len(t.records) == 0 && t.peak > burst {
			// A map keeps its size for ever; a burst's memory goes back.
			t.records, t.peak = map[request]*record[request]{}, 0
		}
	}
}

// add appends l to what owes r. The caller holds the tracker's mu.
func (r *record[request]) add(l *link[request]) {
	l.record, l.prev = r, r.last
	if r.last == nil {
		r.first = l
	} else {
		r.last.next = l
	}
	r.last = l
	if r.owed == 0 {
		l.entry.group.tracker.owing++
	}
	r.owed++
}

// remove takes l out of what owes r. The caller holds the tracker's mu.
func (r *record[request]) remove(l *link[request]) {
	if l.prev == nil {
		r.first = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		r.last = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.prev, l.next = nil, nil
	r.owed--
	if r.owed == 0 {
		l.entry.group.tracker.owing--
	}
}

// Owes reports whether any message owes req.
func (t *Tracker[request]) Owes(req request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[req]
	return r != nil && r.owed > 0
}
