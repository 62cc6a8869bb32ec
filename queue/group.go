package queue

// Group is one source's part of a [Tracker].
type Group[request comparable] struct {
	tracker     *Tracker[request]
	maxAttempts int
	supersede   bool
	stopped     uint64 // tick of Stop; 0 before
}

// GroupOptions are what a source wants of the tracker.
type GroupOptions struct {
	// MaxAttempts is the number of failed attempts that cover a message before the request becomes a
	// dead letter for it. Zero or less: no number is too many.
	MaxAttempts int
	// Supersede settles a message early once newer ones of the group owe all that it still owes.
	Supersede bool
}

// NewGroup adds a source to the tracker.
func (t *Tracker[request]) NewGroup(o GroupOptions) *Group[request] {
	return &Group[request]{tracker: t, maxAttempts: o.MaxAttempts, supersede: o.Supersede}
}

// Register says that m owes reqs, the same request twice counting once, and that they are about to be
// pushed. Call it before any of them is: from the moment a worker can see a request, its message must
// be in the account. e is the zero Entry that is to hold m's account. Register reports whether m is
// owed now: it is not when reqs is empty, or once the group was stopped.
func (g *Group[request]) Register(e *Entry[request], m Message[request], reqs []request) bool {
	if len(reqs) == 0 {
		return false
	}
	var superseded []*Entry[request]
	t := g.tracker
	t.mu.Lock()
	if g.stopped != 0 {
		t.mu.Unlock()
		return false
	}
	e.group, e.msg, e.since, e.state = g, m, t.now(), entryOwed
	if len(reqs) > 1 {
		more := make([]link[request], len(reqs)-1)
		e.more = &more
	}
	tick := t.next()
	for _, req := range reqs {
		r := t.record(req)
		if r.last != nil && r.last.entry == e {
			continue // the same request twice
		}
		l := &e.one
		if e.owed > 0 {
			l = &(*e.more)[e.owed-1]
		}
		l.entry, l.tick = e, tick
		r.add(l)
		r.wait(e.since, tick)
		e.owed++
		e.clear++
		if !g.supersede {
			continue
		}
		if older := l.older(); older != nil {
			l.failed = older.failed
			older.superseded = true
			older.entry.clear--
			if older.entry.settle() {
				superseded = append(superseded, older.entry)
			}
		}
	}
	for _, old := range superseded {
		old.drop(t)
	}
	t.mu.Unlock()

	for _, old := range superseded {
		old.report(m)
	}
	return true
}

// Stop ends the group's account of attempts: nothing can be registered any more, and attempts that
// begin from now on count for nothing. Those that are running still do.
func (g *Group[request]) Stop() {
	g.tracker.mu.Lock()
	if g.stopped == 0 {
		g.stopped = g.tracker.next()
	}
	g.tracker.mu.Unlock()
}

// Abandon forgets e, if that is right once the group was stopped: when no attempt that runs now can settle
// it, or, with all, even then. It reports whether e was forgotten, or never registered; what was settled
// meanwhile was not.
func (g *Group[request]) Abandon(e *Entry[request], all bool) bool {
	g.tracker.mu.Lock()
	defer g.tracker.mu.Unlock()
	switch {
	case e.state == entryNew:
		return true
	case e.state == entryOwed && (all || e.waiting()):
		return e.forget(g.tracker)
	default:
		return false
	}
}
