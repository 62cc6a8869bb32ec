package queue_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/levelstream/jsource/queue"
)

// modelQueue is the order that the Queue should keep.
type modelQueue struct {
	events, resyncs []string
	pops            int
	known           map[string]*modelRequest
}

type modelRequest struct {
	waiting, delayed, running queue.Cause
	works, again              bool // is being worked on; was added meanwhile
	due                       time.Time
	failures                  int
}

func (m *modelQueue) of(req string) *modelRequest {
	if m.known[req] == nil {
		m.known[req] = &modelRequest{}
	}
	return m.known[req]
}

func (m *modelQueue) add(req string, cause queue.Cause) {
	r := m.of(req)
	r.waiting |= cause
	if r.works {
		r.again = true
		return
	}
	yields := r.waiting&(queue.Resync|queue.Low) != 0 && r.waiting&(queue.Event|queue.Owed) == 0
	at := slices.Index(m.resyncs, req)
	switch {
	case slices.Contains(m.events, req) || at >= 0 && yields:
	case yields:
		m.resyncs = append(m.resyncs, req)
	default:
		if at >= 0 {
			m.resyncs = slices.Delete(m.resyncs, at, at+1)
		}
		m.events = append(m.events, req)
	}
}

func (m *modelQueue) take() (string, queue.Cause) {
	m.pops++
	line := &m.events
	if len(m.events) == 0 || len(m.resyncs) > 0 && m.pops%8 == 0 {
		line = &m.resyncs
	}
	req := (*line)[0]
	*line = (*line)[1:]
	r := m.of(req)
	r.running, r.waiting, r.works = r.waiting, 0, true
	return req, r.running
}

func (m *modelQueue) delay(req string, d time.Duration) {
	r := m.of(req)
	if due := time.Now().Add(d); r.due.IsZero() || due.Before(r.due) {
		r.due = due
	}
}

func (m *modelQueue) done(req string) {
	r := m.of(req)
	r.works = false
	if r.again {
		r.again = false
		m.add(req, 0)
	}
}

// fire adds what has been delayed long enough, in the order of time.
func (m *modelQueue) fire() {
	for {
		var next string
		for req, r := range m.known {
			if !r.due.IsZero() && !r.due.After(time.Now()) && (next == "" || r.due.Before(m.of(next).due)) {
				next = req
			}
		}
		if next == "" {
			return
		}
		r := m.of(next)
		cause := r.delayed
		r.due, r.delayed = time.Time{}, 0
		m.add(next, cause)
	}
}

func (m *modelQueue) working() (reqs []string) {
	for req, r := range m.known {
		if r.works {
			reqs = append(reqs, req)
		}
	}
	slices.Sort(reqs)
	return reqs
}

// TestN1_TheOrderIsThatOfAModel checks the Queue, step by step: what comes next and why, that nothing is
// lost, queued twice or on two workers at once, and what it says it holds.
func TestN1_TheOrderIsThatOfAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			q := newQueue(t)
			m := &modelQueue{known: map[string]*modelRequest{}}
			take := func(t *rapid.T) {
				req, cause := m.take()
				take(t, q, req, cause)
			}
			done := func(req string) {
				q.Done(req)
				m.done(req)
			}
			requests := rapid.SampledFrom(modelRequests)
			causes := rapid.SampledFrom([]queue.Cause{queue.Resync, queue.Low, queue.Event, queue.Owed})
			pass := func(d time.Duration) {
				time.Sleep(d)
				synctest.Wait()
				m.fire()
			}
			t.Repeat(map[string]func(*rapid.T){
				"add": func(t *rapid.T) {
					req, cause := requests.Draw(t, "request"), causes.Draw(t, "cause")
					q.Add(req, cause)
					m.add(req, cause)
				},
				"take": func(t *rapid.T) {
					if q.Len() == 0 {
						t.Skip("nothing waits")
					}
					take(t)
				},
				"done": func(t *rapid.T) {
					working := m.working()
					if len(working) == 0 {
						t.Skip("nothing is worked on")
					}
					req := rapid.SampledFrom(working).Draw(t, "request")
					r := m.of(req)
					switch rapid.SampledFrom([]string{"", "fails", "requeues"}).Draw(t, "outcome") {
					case "fails":
						q.Retry(req)
						r.waiting |= r.running
						r.delayed |= r.running
						m.delay(req, min(time.Second<<r.failures, time.Minute))
						r.failures++
					case "requeues":
						q.Forget(req)
						r.failures = 0
						d := time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond
						q.RetryAfter(req, d)
						r.delayed |= r.running | queue.Requeue
						m.delay(req, d)
					default:
						q.Forget(req)
						r.failures = 0
					}
					synctest.Wait()
					done(req)
				},
				"sleep": func(t *rapid.T) {
					pass(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
				},
				"": func(t *rapid.T) {
					pass(1) // so that no two delays end at the same time
					equal(t, "waiting", q.Len(), len(m.events)+len(m.resyncs))
					for _, req := range modelRequests {
						r := m.of(req)
						equal(t, "held: "+req, q.Holds(req), r.works || r.waiting|r.delayed != 0)
						equal(t, "retries of "+req, q.Retries(req), r.failures)
					}
				},
			})

			// Nothing is lost: in the end everything that was added or delayed has had its turn.
			for round := range 2 {
				for q.Len() > 0 {
					take(t)
				}
				for _, req := range m.working() {
					done(req)
				}
				if round == 0 {
					pass(2 * time.Minute)
				}
			}
			for q.Len() > 0 {
				take(t)
			}
			for _, req := range m.working() {
				done(req)
			}
			equal(t, "waiting", len(m.events)+len(m.resyncs), 0)
			equal(t, "requests that hold memory", q.States(), 0)
		})
	})
}
