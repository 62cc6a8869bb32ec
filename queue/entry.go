package queue

import "time"

// Message is a message as its source sees it. The tracker calls it without holding any lock, from the
// goroutine that ended an attempt (or called Buried or Register); its methods must not block. Settled
// or Superseded is called once, when the message owes nothing any more; neither is called for a message
// that was forgotten, nor for one that owed nothing to begin with.
type Message[request comparable] interface {
	// Settled says that every request the message owed was reconciled, or, if buried, that at least one
	// of them became a dead letter and the others were reconciled.
	Settled(buried bool)
	// Superseded says that newer messages, by the last among them, owe all that the message still owed.
	Superseded(by Message[request])
	// Died is called once for each request that became a dead letter. The message goes on owing it
	// until [Entry.Buried] says that the dead letter is stored.
	Died(req request, d Death)
}

// Death says why a request became a dead letter.
type Death struct {
	Err      error // what the last attempt returned
	Attempts int   // failed attempts that covered the message, the last included
	Terminal bool  // the error was terminal; otherwise MaxAttempts was reached
}

// Entry is one message's account. Embed it in the source's own record of the message, or allocate it;
// the zero Entry is ready for [Group.Register]. It must not be copied afterwards.
type Entry[request comparable] struct {
	group *Group[request]
	msg   Message[request]
	one   link[request]
	more  *[]link[request] // the further links of a message that owes several requests; few do
	since time.Duration    // when it was registered, on the tracker's clock
	owed  int32            // links owed or dying
	clear int32            // those of them that no newer message supersedes
	state entryState
	dead  bool // a request of it was buried
}

type entryState uint8

const (
	entryNew entryState = iota
	entryOwed
	entrySettled
	entryForgotten
)

// links yields the links of e.
func (e *Entry[request]) links(yield func(*link[request]) bool) {
	if e.one.entry == nil || !yield(&e.one) {
		return
	}
	if e.more == nil {
		return
	}
	for i := range *e.more {
		if l := &(*e.more)[i]; l.entry == nil || !yield(l) {
			return
		}
	}
}

// finish takes l, which was owed or dying, off what its entry owes and reports whether that settled the
// entry. The caller holds mu.
func (l *link[request]) finish() bool {
	e := l.entry
	l.state = linkDone
	e.owed--
	if !l.superseded {
		e.clear--
	}
	return e.settle()
}

// settle makes e settled if it owes nothing that newer messages do not owe too. The caller holds mu,
// then drops e, and reports it when it no longer holds mu.
func (e *Entry[request]) settle() bool {
	if e.state != entryOwed || e.clear > 0 {
		return false
	}
	e.state = entrySettled
	return true
}

// report tells the message that e was settled; by is what drop returned.
func (e *Entry[request]) report(by Message[request]) {
	if by != nil {
		e.msg.Superseded(by)
		return
	}
	e.msg.Settled(e.dead)
}

// drop takes what e still owes out of the account. If e was settled because newer messages owe all of
// that, by is the last among them. The caller holds mu, and e is settled or forgotten.
func (e *Entry[request]) drop(t *Tracker[request]) (by Message[request]) {
	var tick uint64
	for l := range e.links {
		if l.state == linkOwed {
			if n := l.newest(); e.state == entrySettled && n.tick > tick {
				by, tick = n.entry.msg, n.tick
			}
			if e.state == entryForgotten && e.group.supersede && l.newer() == nil {
				if older := l.older(); older != nil {
					older.unsupersede()
				}
			}
			l.record.remove(l)
			t.release(l.record)
		}
		l.state = linkDone
	}
	return by
}

// older is the nearest older link of the same request and group. The caller holds mu.
func (l *link[request]) older() *link[request] {
	o := l.prev
	for o != nil && o.entry.group != l.entry.group {
		o = o.prev
	}
	return o
}

// newer is the nearest newer link of the same request and group. The caller holds mu.
func (l *link[request]) newer() *link[request] {
	n := l.next
	for n != nil && n.entry.group != l.entry.group {
		n = n.next
	}
	return n
}

// newest is the newest link of the same request and group. The caller holds mu.
func (l *link[request]) newest() *link[request] {
	n := l.record.last
	for n.entry.group != l.entry.group {
		n = n.prev
	}
	return n
}

// unsupersede takes back that a newer message owes l's request too. The caller holds mu.
func (l *link[request]) unsupersede() {
	if l.superseded {
		l.superseded = false
		l.entry.clear++
	}
}

// Buried says that the dead letter of req is stored: e owes req no longer. It has no effect unless
// Died was called for req, and none after e was forgotten.
func (e *Entry[request]) Buried(req request) {
	t := e.group.tracker
	t.mu.Lock()
	settled := false
	for l := range e.links {
		if l.state == linkDying && l.record.req == req {
			e.dead = true
			settled = l.finish()
			break
		}
	}
	var by Message[request]
	if settled {
		by = e.drop(t)
	}
	t.mu.Unlock()
	if settled {
		e.report(by)
	}
}

// Forget ends e without settling it: whatever happens to its requests afterwards, nothing is reported.
// It says whether e was owed until now.
func (e *Entry[request]) Forget() bool {
	if e.group == nil {
		return false
	}
	t := e.group.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.forget(t)
}

func (e *Entry[request]) forget(t *Tracker[request]) bool {
	if e.state != entryOwed {
		return false
	}
	e.state = entryForgotten
	e.drop(t)
	return true
}

// waiting reports whether e owes a request on which no attempt that covers e is running: the attempts that
// run now cannot settle it. The caller holds mu.
func (e *Entry[request]) waiting() bool {
	for l := range e.links {
		if l.state != linkOwed {
			continue
		}
		// Of attempts that overlap only the first and the latest are looked at: at worst e waits for
		// one that does not cover it.
		r, stopped := l.record, e.group.stopped
		if r.running == 0 || r.begun < l.tick || stopped != 0 && r.alone > stopped {
			return true
		}
	}
	return false
}

// Owes returns the requests that e still owes.
func (e *Entry[request]) Owes() []request {
	if e.group == nil {
		return nil
	}
	e.group.tracker.mu.Lock()
	defer e.group.tracker.mu.Unlock()
	var reqs []request
	for l := range e.links {
		if l.state != linkDone {
			reqs = append(reqs, l.record.req)
		}
	}
	return reqs
}
