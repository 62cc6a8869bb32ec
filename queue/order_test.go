package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/queue"
)

// newQueue returns a queue that backs off for 1, 2, 4, 8 seconds, and shuts it down after the test.
func newQueue(t interface{ Cleanup(func()) }) *queue.Queue[string] {
	q := queue.New("test", workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute))
	t.Cleanup(q.ShutDown)
	return q
}

// take takes one request, checks which it is and why, and leaves it being worked on.
func take(tb failer, q *queue.Queue[string], req string, cause queue.Cause) {
	tb.Helper()
	got, why, ok := q.Get()
	if !ok || got != req || why != cause {
		tb.Fatalf("took %q because of %v (%t), want %q because of %v", got, why, ok, req, cause)
	}
}

// work takes one request and is done with it.
func work(tb failer, q *queue.Queue[string], req string, cause queue.Cause) {
	tb.Helper()
	take(tb, q, req, cause)
	q.Done(req)
}

func TestN1_EventsGoBeforeResyncs(t *testing.T) {
	q := newQueue(t)
	q.Add("r1", queue.Resync)
	q.Add("e1", queue.Event)
	q.Add("r2", queue.Resync)
	q.Add("o1", queue.Owed)
	q.Add("e2", queue.Event)
	equal(t, "waiting", q.Len(), 5)
	work(t, q, "e1", queue.Event)
	work(t, q, "o1", queue.Owed)
	work(t, q, "e2", queue.Event)
	work(t, q, "r1", queue.Resync)
	work(t, q, "r2", queue.Resync)
	equal(t, "waiting", q.Len(), 0)
}

// Neither starves the other: under a flood of events one Pop in eight takes a resync request, and only
// one in eight.
func TestN1_OnePopInEightTakesAResync(t *testing.T) {
	q := newQueue(t)
	for i := range 100 {
		q.Add(fmt.Sprint("r", i), queue.Resync)
	}
	var resyncs []int
	for i := range 80 {
		q.Add("hot", queue.Event)
		req, _, _ := q.Get()
		if req != "hot" {
			resyncs = append(resyncs, i+1)
		}
		q.Done(req)
	}
	equal(t, "Pops that took a resync", fmt.Sprint(resyncs), "[8 16 24 32 40 48 56 64 72 80]")
}

func TestN1_AnEventPromotesWhatTheResyncQueued(t *testing.T) {
	q := newQueue(t)
	q.Add("a", queue.Resync)
	q.Add("b", queue.Resync)
	q.Add("e", queue.Event)
	q.Add("b", queue.Event)
	q.Add("b", queue.Resync) // changes nothing
	equal(t, "waiting", q.Len(), 3)
	work(t, q, "e", queue.Event)
	work(t, q, "b", queue.Event|queue.Resync)
	work(t, q, "a", queue.Resync)
	equal(t, "waiting", q.Len(), 0)
}

// The place that a promoted request leaves in the resync line is nobody's, not its own when it comes back.
func TestN1_PlaceThatWasLeftIsNotTakenAgain(t *testing.T) {
	q := newQueue(t)
	q.Add("a", queue.Resync)
	q.Add("a", queue.Event)
	work(t, q, "a", queue.Event|queue.Resync)
	q.Add("b", queue.Resync)
	q.Add("a", queue.Resync)
	work(t, q, "b", queue.Resync)
	work(t, q, "a", queue.Resync)
}

func TestN1_WhatComesWhileItIsWorkedOnKeepsItsClass(t *testing.T) {
	q := newQueue(t)
	q.Add("a", queue.Event)
	take(t, q, "a", queue.Event)
	q.Add("a", queue.Resync)
	q.Done("a")
	q.Add("e", queue.Event)
	work(t, q, "e", queue.Event)
	work(t, q, "a", queue.Resync)
}

func TestN1_ClassIsKeptThroughRetriesAndDelays(t *testing.T) {
	for _, c := range []struct {
		name  string
		again func(*queue.Queue[string])
		extra queue.Cause
	}{
		{"Retry", func(q *queue.Queue[string]) { q.Retry("a") }, 0},
		{"RetryAfter", func(q *queue.Queue[string]) { q.RetryAfter("a", time.Second) }, queue.Requeue},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				for range 2 {
					q.Add("a", queue.Resync)
					take(t, q, "a", queue.Resync)
					c.again(q)
					q.Done("a")
					time.Sleep(time.Second)
					synctest.Wait()
					q.Add("e", queue.Event)
					work(t, q, "e", queue.Event)
					work(t, q, "a", queue.Resync|c.extra)
					q.Forget("a")
				}
			})
		})
	}
}

// An attempt that begins between the two steps of an Add takes its cause, and there is another one all the
// same: it must not have a cause that nobody gave, nor none.
func TestN1_AttemptThatBeginsInTheMiddleOfAnAdd(t *testing.T) {
	for _, doneFirst := range []bool{true, false} {
		q := newQueue(t)
		q.Add("a", queue.Resync)
		second := q.AddInTwoSteps("a", queue.Owed)
		take(t, q, "a", queue.Resync|queue.Owed)
		if doneFirst {
			q.Done("a")
			equal(t, "held", q.Holds("a"), true)
			second()
		} else {
			second()
			q.Done("a")
		}
		equal(t, "held", q.Holds("a"), true)
		work(t, q, "a", queue.Resync|queue.Owed)
		equal(t, "held", q.Holds("a"), false)
	}
}

// A request that polls (every attempt returns RequeueAfter) was asked for by an event once. When the
// resync names it in between, that is a resync request like any other.
func TestN1_DelayedRequestIsNoEventYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.Add("polls", queue.Event)
		take(t, q, "polls", queue.Event)
		q.RetryAfter("polls", time.Hour)
		q.Done("polls")
		time.Sleep(time.Minute)

		q.Add("polls", queue.Resync)
		q.Add("e", queue.Event)
		work(t, q, "e", queue.Event)
		work(t, q, "polls", queue.Resync)

		equal(t, "held", q.Holds("polls"), true)
		time.Sleep(time.Hour)
		synctest.Wait()
		work(t, q, "polls", queue.Event|queue.Requeue)
		equal(t, "held", q.Holds("polls"), false)
	})
}

// What failed is different: the event still wants its attempt, whoever asks for it now.
func TestN1_FailedEventStaysAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.Add("failing", queue.Event)
		take(t, q, "failing", queue.Event)
		q.Retry("failing")
		q.Done("failing")

		q.Add("r", queue.Resync)
		q.Add("failing", queue.Resync)
		work(t, q, "failing", queue.Event|queue.Resync)
		work(t, q, "r", queue.Resync)
	})
}

func TestHolds_FromAddUntilNothingIsToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		holds := func(when string, want bool) { t.Helper(); equal(t, "held "+when, q.Holds("a"), want) }
		holds("at first", false)
		q.Add("a", queue.Event)
		holds("while it waits", true)
		take(t, q, "a", queue.Event)
		holds("while it is worked on", true)
		q.Retry("a")
		q.Done("a")
		holds("while it backs off", true)
		time.Sleep(time.Second)
		synctest.Wait()
		holds("while it waits for its retry", true)
		take(t, q, "a", queue.Event)
		q.RetryAfter("a", time.Hour)
		q.Done("a")
		holds("while it is delayed", true)
		q.Add("a", queue.Event)
		work(t, q, "a", queue.Event)
		holds("while it is delayed, after an attempt that came first", true)
		time.Sleep(time.Hour)
		synctest.Wait()
		work(t, q, "a", queue.Event|queue.Requeue)
		holds("at last", false)
		equal(t, "requests that hold memory", q.States(), 0)
	})
}

func TestQueue_RequestIsQueuedOnceAndNeverOnTwoWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		for range 5 {
			q.Add("a", queue.Event)
		}
		equal(t, "waiting", q.Len(), 1)
		take(t, q, "a", queue.Event)
		for range 5 {
			q.Add("a", queue.Owed)
		}
		equal(t, "waiting", q.Len(), 0)
		second := make(chan queue.Cause, 1)
		go func() {
			_, cause, _ := q.Get()
			second <- cause
		}()
		synctest.Wait()
		equal(t, "on the second worker", len(second), 0)
		q.Done("a")
		equal(t, "why it runs again", <-second, queue.Owed)
		q.Done("a")
	})
}

func TestQueue_ShutDownHandsOutWhatIsQueuedAndEnds(t *testing.T) {
	q := newQueue(t)
	q.Add("a", queue.Event)
	q.Add("b", queue.Resync)
	q.ShutDown()
	q.Add("c", queue.Event)
	work(t, q, "a", queue.Event)
	work(t, q, "b", queue.Resync)
	_, _, ok := q.Get()
	equal(t, "another one", ok, false)
}

func TestCause_String(t *testing.T) {
	got := []string{}
	for _, c := range []queue.Cause{
		queue.Resync, queue.Requeue, queue.Resync | queue.Requeue, queue.Event | queue.Resync,
		queue.Owed | queue.Event | queue.Resync, queue.Low, queue.Low | queue.Resync, 0,
	} {
		got = append(got, c.String())
	}
	want := []string{"resync", "requeue", "requeue", "event", "message", "low priority", "resync", "unknown"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
