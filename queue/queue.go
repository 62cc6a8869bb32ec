package queue

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Queue is a controller's work queue: client-go's rate-limited queue, so that a request is never worked
// on twice at once, is queued once however often it is added, and backs off by itself; with one
// addition. It knows what caused each request and hands out those of events before those that only a
// resync asks for, without starving either.
type Queue[request comparable] struct {
	line workqueue.TypedInterface[request] // what waits and what is being worked on
	wq   workqueue.TypedRateLimitingInterface[request]

	began  time.Time // what waiting is measured from
	waited func(time.Duration)

	mu     sync.Mutex // taken inside client-go's lock, never around a call to it
	states map[request]state
	peak   int // the most states since the map was made
}

// state is what the queue knows of a request that waits, is delayed or is being worked on.
type state struct {
	waiting Cause         // of the attempt to come
	delayed Cause         // of the attempt to come after a delay
	running Cause         // of the attempt that runs, or ran last
	works   bool          // an attempt runs
	calls   int32         // of add and Done that have not returned: they need what is known
	resync  bool          // it is in the resync line
	place   uint64        // in its line; 0: in none
	since   time.Duration // when it joined
}

// idle reports whether there is nothing to know.
func (s state) idle() bool {
	return s.waiting == 0 && s.delayed == 0 && !s.works && s.calls == 0 && s.place == 0
}

// New returns an empty queue. limiter decides how long a request that failed waits. Under name, which is
// the controller's, client-go's metrics provider reports depth, waiting time and retries.
func New[request comparable](name string, limiter workqueue.TypedRateLimiter[request]) *Queue[request] {
	q := &Queue[request]{states: map[request]state{}, began: time.Now(), waited: func(time.Duration) {}}
	q.line = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[request]{
		Name:  name,
		Queue: &order[request]{queue: q},
	})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[request]{
		Name:  name,
		Queue: delayed[request]{TypedInterface: q.line, queue: q},
	})
	q.wq = workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[request]{
		Name:          name,
		DelayingQueue: delaying,
	})
	return q
}

// OnWait makes the queue call waited with how long each request that is handed out was queued. Call it before
// anything is added; waited must not block.
func (q *Queue[request]) OnWait(waited func(time.Duration)) { q.waited = waited }

// delayed is the queue as client-go's delaying queue sees it, which adds to it what was delayed.
type delayed[request comparable] struct {
	workqueue.TypedInterface[request]
	queue *Queue[request]
}

func (d delayed[request]) Add(req request) {
	d.queue.add(req, func(s state) state {
		s.waiting, s.delayed = s.waiting|s.delayed, 0
		return s
	})
}

// Add queues req, because of cause. If an attempt on it is running, it is queued again once that ends.
func (q *Queue[request]) Add(req request, cause Cause) {
	q.add(req, func(s state) state {
		s.waiting |= cause
		return s
	})
}

// add queues req. The change that says why is made first: the line that req joins depends on it.
func (q *Queue[request]) add(req request, change func(state) state) {
	q.update(req, func(s state) state {
		s.calls++
		return change(s)
	})
	q.line.Add(req)
	q.finish(req)
}

// update changes what is known of req.
func (q *Queue[request]) update(req request, change func(state) state) {
	q.mu.Lock()
	q.states[req] = change(q.states[req])
	q.peak = max(q.peak, len(q.states))
	q.mu.Unlock()
}

// Get waits for a request to work on and says what caused it. ok is false once the queue is shut down
// and empty. Call Done when the work has ended.
func (q *Queue[request]) Get() (req request, cause Cause, ok bool) {
	req, shutdown := q.line.Get()
	if shutdown {
		return req, 0, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return req, q.states[req].running, true
}

// Done says that the work on req has ended. What is to be tried again was added before.
func (q *Queue[request]) Done(req request) {
	q.update(req, func(s state) state {
		s.calls++
		s.works = false
		return s
	})
	q.line.Done(req)
	q.finish(req)
}

// finish ends a call and forgets req if nothing of it is worth knowing.
func (q *Queue[request]) finish(req request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.states[req]
	s.calls--
	if !s.idle() {
		q.states[req] = s
		return
	}
	delete(q.states, req)
	if len(q.states) == 0 && q.peak > burst {
		// A map keeps its size for ever; a burst's memory goes back.
		q.states, q.peak = map[request]state{}, 0
	}
}

// Retry queues req again after a backoff that grows with each Retry until Forget: the attempt that runs
// has failed, and what caused it still wants one. Call it before Done.
func (q *Queue[request]) Retry(req request) {
	q.update(req, func(s state) state {
		s.waiting |= s.running // of whatever attempt comes first
		s.delayed |= s.running
		return s
	})
	q.wq.AddRateLimited(req)
}

// RetryAfter queues req again after d, because the attempt that runs asks for it. Call it before Done.
func (q *Queue[request]) RetryAfter(req request, d time.Duration) {
	q.update(req, func(s state) state {
		s.delayed |= s.running | Requeue
		return s
	})
	q.wq.AddAfter(req, d)
}

// Retries is the number of times that Retry was called for req since Forget, as the limiter counts.
func (q *Queue[request]) Retries(req request) int { return q.wq.NumRequeues(req) }

// Forget resets req's backoff. Call it on every outcome that is final.
func (q *Queue[request]) Forget(req request) { q.wq.Forget(req) }

// Holds reports whether req waits, is delayed or is being worked on.
func (q *Queue[request]) Holds(req request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, held := q.states[req]
	return held
}

// Len is the number of requests that wait, without those that are delayed.
func (q *Queue[request]) Len() int { return q.line.Len() }

// ShutDown makes Get return what is queued and then false, and Add do nothing. What is delayed is
// forgotten.
func (q *Queue[request]) ShutDown() { q.wq.ShutDown() }

// join notes that req joins a line, at place, and reports which. Called under client-go's lock, as are
// promote and leave.
func (q *Queue[request]) join(req request, place uint64) (resync bool) {
	q.update(req, func(s state) state {
		if s.waiting == 0 {
			// The last attempt began between the two steps of an Add: it took the cause of that for
			// its own, yet there is to be another one.
			s.waiting = cmp.Or(s.running, Requeue)
		}
		s.place, s.resync, s.since = place, s.waiting.yields(), time.Since(q.began)
		resync = s.resync
		return s
	})
	return resync
}

// promote reports whether req, in the resync line until now, has become an event request, and then moves
// it to place in the event line.
func (q *Queue[request]) promote(req request, place uint64) (promoted bool) {
	q.update(req, func(s state) state {
		if promoted = s.resync && !s.waiting.yields(); promoted {
			s.place, s.resync = place, false
		}
		return s
	})
	return promoted
}

// leave reports whether place is still req's. Then req leaves it to be worked on.
func (q *Queue[request]) leave(req request, place uint64) bool {
	q.mu.Lock()
	s, known := q.states[req]
	if !known || s.place != place {
		q.mu.Unlock()
		return false
	}
	s.running, s.waiting, s.works, s.place = s.waiting, 0, true, 0
	q.states[req] = s
	q.mu.Unlock()
	q.waited(time.Since(q.began) - s.since)
	return true
}
