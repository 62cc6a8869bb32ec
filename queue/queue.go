package queue

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Queue is a controller's work queue: client-go's rate-limited queue, so that a request is never worked
// on twice at once, is queued once however often it is added, and backs off by itself; with one
// addition. It knows what caused each request and hands out those of events before those that only a
// resync asks for, without starving either.
type Queue[request comparable] struct {
	wq workqueue.TypedRateLimitingInterface[request]

	mu     sync.Mutex // taken inside client-go's lock, never around a call to it
	states map[request]state
	peak   int // the most states since the map was made
}

// state is what the queue knows of a request that waits or is being worked on.
type state struct {
	waiting Cause // of the attempt to come
	running Cause // of the attempt that runs
	works   bool
	queued  bool // in a line
	resync  bool // in the resync line
}

// New returns an empty queue. limiter decides how long a request that failed waits. Under name, which is
// the controller's, client-go's metrics provider reports depth, waiting time and retries.
func New[request comparable](name string, limiter workqueue.TypedRateLimiter[request]) *Queue[request] {
	q := &Queue[request]{states: map[request]state{}}
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[request]{
		Name:  name,
		Queue: &order[request]{queue: q},
	})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[request]{
		Name:  name,
		Queue: inner,
	})
	q.wq = workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[request]{
		Name:          name,
		DelayingQueue: delaying,
	})
	return q
}

// Add queues req, because of cause. If an attempt on it is running, it is queued again once that ends.
func (q *Queue[request]) Add(req request, cause Cause) {
	q.expect(req, cause)
	q.wq.Add(req)
}

// expect records why req is about to be added, before it is: the line it joins depends on it.
func (q *Queue[request]) expect(req request, cause Cause) {
	q.mu.Lock()
	s := q.states[req]
	s.waiting |= cause
	q.states[req] = s
	q.peak = max(q.peak, len(q.states))
	q.mu.Unlock()
}

// Get waits for a request to work on and says what caused it. ok is false once the queue is shut down
// and empty. Call Done when the work has ended.
func (q *Queue[request]) Get() (req request, cause Cause, ok bool) {
	req, shutdown := q.wq.Get()
	if shutdown {
		return req, 0, false
	}
	q.mu.Lock()
	s := q.states[req]
	s.running, s.waiting, s.works = s.waiting, 0, true
	q.states[req] = s
	q.mu.Unlock()
	return req, s.running, true
}

// Done says that the work on req has ended. What is to be tried again was added before.
func (q *Queue[request]) Done(req request) {
	q.mu.Lock()
	s := q.states[req]
	s.running, s.works = 0, false
	q.keep(req, s)
	q.mu.Unlock()
	q.wq.Done(req)
}

// keep stores s, or forgets it when nothing waits. The caller holds mu.
func (q *Queue[request]) keep(req request, s state) {
	if s != (state{}) {
		q.states[req] = s
		return
	}
	delete(q.states, req)
	if len(q.states) == 0 && q.peak > 4096 {
		// A map keeps its size for ever; a burst's memory goes back.
		q.states, q.peak = map[request]state{}, 0
	}
}

// Retry queues req again after a backoff that grows with each Retry until Forget. Call it before Done.
func (q *Queue[request]) Retry(req request) {
	q.again(req)
	q.wq.AddRateLimited(req)
}

// RetryAfter queues req again after d. Call it before Done.
func (q *Queue[request]) RetryAfter(req request, d time.Duration) {
	q.again(req)
	q.wq.AddAfter(req, d)
}

// again keeps the cause of the attempt that runs for the next one.
func (q *Queue[request]) again(req request) {
	q.mu.Lock()
	s := q.states[req]
	s.waiting |= s.running
	q.states[req] = s
	q.mu.Unlock()
}

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
func (q *Queue[request]) Len() int { return q.wq.Len() }

// ShutDown makes Get return what is queued and then false, and Add do nothing. What is delayed is
// forgotten.
func (q *Queue[request]) ShutDown() { q.wq.ShutDown() }

// line reports whether req belongs in the resync line, and notes that it joins it. Called under
// client-go's lock.
func (q *Queue[request]) line(req request) (resync bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.states[req]
	s.queued, s.resync = true, s.waiting.resync()
	q.states[req] = s
	return s.resync
}

// promote reports whether req, in the resync line until now, has become an event request.
func (q *Queue[request]) promote(req request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.states[req]
	if !s.queued || !s.resync || s.waiting.resync() {
		return false
	}
	s.resync = false
	q.states[req] = s
	return true
}

// pop reports whether req really waits in the line it was found in, and takes it out.
func (q *Queue[request]) pop(req request, resync bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s, known := q.states[req]
	if !known || !s.queued || s.resync != resync {
		return false
	}
	s.queued = false
	q.states[req] = s
	return true
}
