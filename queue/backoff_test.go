package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/levelstream/jsource/queue"
)

func TestRetry_BacksOffForEachRequestUntilForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.Add("a", queue.Event)
		for n := range 5 {
			take(t, q, "a", queue.Event)
			q.Retry("a")
			q.Done("a")
			began := time.Now()
			take(t, q, "a", queue.Event)
			equal(t, "backoff", time.Since(began), time.Second<<n)
			q.Add("b", queue.Event) // another request's failures are its own
			q.Done("a")
			take(t, q, "b", queue.Event)
			q.Done("b")
			q.Add("a", queue.Event)
		}
		equal(t, "retries", q.Retries("a"), 5)
		equal(t, "retries of b", q.Retries("b"), 0)
		q.Forget("a")
		equal(t, "retries", q.Retries("a"), 0)
		take(t, q, "a", queue.Event)
		q.Retry("a")
		q.Done("a")
		began := time.Now()
		take(t, q, "a", queue.Event)
		equal(t, "backoff after Forget", time.Since(began), time.Second)
		q.Done("a")
	})
}

// An Add does not wait for the backoff.
func TestRetry_AddGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.Add("a", queue.Resync)
		take(t, q, "a", queue.Resync)
		q.RetryAfter("a", time.Hour)
		q.Done("a")
		began := time.Now()
		q.Add("a", queue.Event)
		take(t, q, "a", queue.Event)
		equal(t, "waited", time.Since(began), 0)
		q.Done("a")
	})
}

func TestRetryAfter_ZeroIsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.Add("a", queue.Event)
		take(t, q, "a", queue.Event)
		q.RetryAfter("a", 0)
		equal(t, "waiting while it is worked on", q.Len(), 0)
		q.Done("a")
		began := time.Now()
		take(t, q, "a", queue.Event|queue.Requeue)
		equal(t, "waited", time.Since(began), 0)
		q.Done("a")
		equal(t, "held", q.Holds("a"), false)
	})
}
