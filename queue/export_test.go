package queue

// Records is the number of requests that the tracker holds memory for.
func (t *Tracker[request]) Records() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.records)
}

// States is the number of requests that the queue holds memory for.
func (q *Queue[request]) States() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.states)
}

// Waiting reports whether the attempts that run now cannot settle e.
func (e *Entry[request]) Waiting() bool {
	if e.group == nil {
		return false
	}
	e.group.tracker.mu.Lock()
	defer e.group.tracker.mu.Unlock()
	return e.state == entryOwed && e.waiting()
}

// AddInTwoSteps is Add, interrupted: the second step is to be called later.
func (q *Queue[request]) AddInTwoSteps(req request, cause Cause) (second func()) {
	q.update(req, func(s state) state {
		s.calls++
		s.waiting |= cause
		return s
	})
	return func() {
		q.line.Add(req)
		q.finish(req)
	}
}
