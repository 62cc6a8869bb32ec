package queue

// resyncTurn: one Pop in so many takes a resync request if there is one, so that a flood of events
// cannot starve the resync; the others take event requests first.
const resyncTurn = 8

// order is the order in which client-go's queue hands out requests: two first-in-first-out lines.
// client-go calls it with its lock held, and never twice for a request that is already queued (except
// Touch).
type order[request comparable] struct {
	queue  *Queue[request]
	events line[request]
	resync line[request]
	pops   int
	n      int
}

// Push adds a request that is not queued.
func (o *order[request]) Push(req request) {
	o.n++
	if o.queue.line(req) {
		o.resync.push(req)
	} else {
		o.events.push(req)
	}
}

// Touch is called when a queued request is added again: it may have become an event request. The place
// it leaves in the resync line is passed over later.
func (o *order[request]) Touch(req request) {
	if o.queue.promote(req) {
		o.events.push(req)
	}
}

func (o *order[request]) Len() int { return o.n }

// Pop takes the next request. client-go calls it only when Len is not 0.
func (o *order[request]) Pop() request {
	o.pops++
	first, second := &o.events, &o.resync
	if o.pops%resyncTurn == 0 {
		first, second = second, first
	}
	for {
		l := first
		if l.len() == 0 {
			l = second
		}
		if req := l.pop(); o.queue.pop(req, l == &o.resync) {
			o.n--
			return req
		}
	}
}

// line is a first-in-first-out line on one slice, which it reuses.
type line[T any] struct {
	items []T
	head  int
}

func (l *line[T]) len() int { return len(l.items) - l.head }

func (l *line[T]) push(item T) {
	if l.head > 64 && l.head > len(l.items)/2 {
		n := copy(l.items, l.items[l.head:])
		clear(l.items[n:])
		l.items, l.head = l.items[:n], 0
	}
	l.items = append(l.items, item)
}

func (l *line[T]) pop() T {
	var zero T
	item := l.items[l.head]
	l.items[l.head] = zero
	l.head++
	if l.head == len(l.items) {
		l.head = 0
		if cap(l.items) > 1024 {
			l.items = nil // a burst's memory goes back
		} else {
			l.items = l.items[:0]
		}
	}
	return item
}
