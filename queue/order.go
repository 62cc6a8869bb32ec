package queue

// resyncTurn: one Pop in so many takes a resync request if there is one, so that a flood of events
// cannot starve the resync; the others take event requests first.
const resyncTurn = 8

// order is the order in which client-go's queue hands out requests: two first-in-first-out lines.
// client-go calls it with its lock held, and never twice for a request that is already queued (except
// Touch).
type order[request comparable] struct {
	queue  *Queue[request]
	events line[place[request]]
	resync line[place[request]]
	pops   int
	places uint64 // given away so far
	n      int
}

// place is one request's place in a line. It is passed over when the request has left it.
type place[request comparable] struct {
	req    request
	number uint64
}

// Push adds a request that is not queued.
func (o *order[request]) Push(req request) {
	o.n++
	o.places++
	if o.queue.join(req, o.places) {
		o.resync.push(place[request]{req, o.places})
	} else {
		o.events.push(place[request]{req, o.places})
	}
}

// Touch is called when a queued request is added again: it may have become an event request.
func (o *order[request]) Touch(req request) {
	if o.queue.promote(req, o.places+1) {
		o.places++
		o.events.push(place[request]{req, o.places})
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
		if p := l.pop(); o.queue.leave(p.req, p.number) {
			o.n--
			return p.req
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
