package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/levelstream/jsource/queue"
)

const bound = time.Minute

// overdue checks what is to be pushed again and what is lost, as "message, because of request".
func overdue(tb testing.TB, g *queue.Group[string], wantAgain []string, wantLost ...string) {
	tb.Helper()
	again, lost := g.Overdue(bound)
	slices.Sort(again)
	if !slices.Equal(again, wantAgain) {
		tb.Fatalf("to be pushed again: %q, want %q", again, wantAgain)
	}
	var got []string
	for _, l := range lost {
		got = append(got, l.Message.(*msg).name+", because of "+l.Request)
	}
	slices.Sort(got)
	if !slices.Equal(got, wantLost) {
		tb.Fatalf("lost: %q, want %q", got, wantLost)
	}
}

// ofOneGroup runs test in a bubble of fake time with a tracker of one group.
func ofOneGroup(t *testing.T, test func(*testing.T, *queue.Tracker[string], *queue.Group[string])) {
	synctest.Test(t, func(t *testing.T) {
		tracker := queue.NewTracker[string]()
		test(t, tracker, tracker.NewGroup(queue.GroupOptions{}))
	})
}

func TestL6_DroppedRequestIsPushedAgainThriceThenLost(t *testing.T) {
	ofOneGroup(t, func(t *testing.T, tracker *queue.Tracker[string], g *queue.Group[string]) {
		m1, m2 := register(g, "m1", "a"), register(g, "m2", "a")
		time.Sleep(bound)
		overdue(t, g, nil)
		time.Sleep(time.Nanosecond)
		for range 3 {
			overdue(t, g, []string{"a"})
			overdue(t, g, nil) // asked again at once: it was only just pushed
			time.Sleep(bound + 1)
		}
		overdue(t, g, nil, "m1, because of a", "m2, because of a")
		equal(t, "requests owed", tracker.Owed(), 0)
		equal(t, "requests that hold memory", tracker.Records(), 0)

		attempt(tracker, "a", queue.Success, nil)
		m1.expect(t)
		m2.expect(t)
	})
}

func TestL6_AnAttemptStartsTheCountOver(t *testing.T) {
	ofOneGroup(t, func(t *testing.T, tracker *queue.Tracker[string], g *queue.Group[string]) {
		register(g, "m", "a")
		for range 5 {
			for range 3 {
				time.Sleep(bound + 1)
				overdue(t, g, []string{"a"})
			}
			attempt(tracker, "a", queue.Unfinished, nil)
			overdue(t, g, nil)
		}
	})
}

// A worker takes one request after the other; all the others wait, some for an hour.
func TestL6_BacklogIsNotSuspected(t *testing.T) {
	ofOneGroup(t, func(t *testing.T, tracker *queue.Tracker[string], g *queue.Group[string]) {
		var backlog []string
		for i := range 100 {
			backlog = append(backlog, fmt.Sprintf("r%02d", i))
			register(g, "m", backlog[i])
		}
		for i, req := range backlog {
			a := tracker.Begin(req)
			time.Sleep(bound * 2 / 3)
			overdue(t, g, nil)
			if i%10 == 3 {
				a.End(queue.Failed, errBroken) // to be tried again at the end of the backlog
				continue
			}
			a.End(queue.Success, nil)
			overdue(t, g, nil)
		}
	})
}

func TestL6_HungWorkerIsNotTheEnginesFault(t *testing.T) {
	ofOneGroup(t, func(t *testing.T, tracker *queue.Tracker[string], g *queue.Group[string]) {
		register(g, "m1", "a")
		a := tracker.Begin("a")
		register(g, "m2", "b")
		time.Sleep(100 * bound)
		overdue(t, g, nil)
		a.End(queue.Success, nil)
		overdue(t, g, nil) // the last attempt began long ago, but the worker is free only now
		b := tracker.Begin("b")
		overdue(t, g, nil)
		b.End(queue.Success, nil)
	})
}

func TestL6_WhatTheEngineHoldsIsNotSuspected(t *testing.T) {
	ofOneGroup(t, func(t *testing.T, tracker *queue.Tracker[string], g *queue.Group[string]) {
		held := map[string]bool{"a": true}
		tracker.SetQueued(func(req string) bool { return held[req] })
		register(g, "m1", "a")
		register(g, "m2", "b")
		time.Sleep(100 * bound)
		overdue(t, g, []string{"b"})
		held["a"] = false
		overdue(t, g, []string{"a"})
	})
}

// The engine is busy all the time, but it has lost one request.
func TestL6_PassedOverRequestIsFound(t *testing.T) {
	ofOneGroup(t, func(t *testing.T, tracker *queue.Tracker[string], g *queue.Group[string]) {
		attempt(tracker, "x", queue.Success, nil)
		register(g, "m1", "lost")
		register(g, "m2", "b")
		a := tracker.Begin("b") // pushed later, begun earlier
		time.Sleep(bound)
		overdue(t, g, nil)
		time.Sleep(time.Nanosecond)
		overdue(t, g, []string{"lost"})
		a.End(queue.Success, nil)
	})
}

// An engine that does not retry some error has dropped the request.
func TestL6_FailedAndNotRetriedIsFoundAndTheBoundGrows(t *testing.T) {
	ofOneGroup(t, func(t *testing.T, tracker *queue.Tracker[string], g *queue.Group[string]) {
		register(g, "m", "a")
		for failures := 1; failures <= 8; failures++ {
			attempt(tracker, "a", queue.Failed, errBroken)
			time.Sleep(bound << min(failures, 6))
			overdue(t, g, nil)
			time.Sleep(time.Nanosecond)
			overdue(t, g, []string{"a"})
		}
		attempt(tracker, "a", queue.Success, nil)

		register(g, "m", "a") // a success makes it short again
		time.Sleep(bound + 1)
		overdue(t, g, []string{"a"})
	})
}

// A request on which an attempt runs cannot begin another one, whoever asked for the one that runs.
func TestL6_RequestBehindItsOwnAttemptIsNotSuspected(t *testing.T) {
	for _, owed := range []bool{true, false} {
		t.Run(fmt.Sprintf("the attempt covers a message %t", owed), func(t *testing.T) {
			ofOneGroup(t, func(t *testing.T, tracker *queue.Tracker[string], g *queue.Group[string]) {
				if owed {
					register(g, "m1", "a")
				}
				a := tracker.Begin("a")
				register(g, "m2", "a")
				for i := range 10 {
					time.Sleep(bound + 1)
					register(g, "m3", "b")
					attempt(tracker, "b", queue.Success, nil) // another worker goes on
					again, lost := g.Overdue(bound)
					if len(again)+len(lost) > 0 {
						t.Fatalf("round %d: to be pushed again: %q, lost: %v", i, again, lost)
					}
				}
				a.End(queue.Failed, errBroken)
				overdue(t, g, nil) // the engine backs off, from now on
			})
		})
	}
}

// A message is lost once, whichever of its requests is found first.
func TestL6_MessageWithTwoDroppedRequestsIsLostOnce(t *testing.T) {
	ofOneGroup(t, func(t *testing.T, tracker *queue.Tracker[string], g *queue.Group[string]) {
		register(g, "m", "a", "b")
		for range 3 {
			time.Sleep(bound + 1)
			overdue(t, g, []string{"a", "b"})
		}
		time.Sleep(bound + 1)
		again, lost := g.Overdue(bound)
		equal(t, "pushed again", len(again), 0)
		equal(t, "lost", len(lost), 1)
		equal(t, "requests that hold memory", tracker.Records(), 0)
	})
}

func TestL6_EachGroupFindsItsOwn(t *testing.T) {
	ofOneGroup(t, func(t *testing.T, tracker *queue.Tracker[string], g *queue.Group[string]) {
		other := tracker.NewGroup(queue.GroupOptions{})
		register(g, "m1", "a")
		register(g, "m2", "both")
		register(other, "m3", "both")
		register(other, "m4", "b")
		for range 3 {
			time.Sleep(bound + 1)
			overdue(t, g, []string{"a", "both"})
			overdue(t, other, []string{"b"}) // "both" was only just pushed
		}
		time.Sleep(bound + 1)
		overdue(t, g, nil, "m1, because of a", "m2, because of both")
		overdue(t, other, nil, "m3, because of both", "m4, because of b")
	})
}

func TestL6_NothingIsOverdueAfterTheStop(t *testing.T) {
	ofOneGroup(t, func(t *testing.T, _ *queue.Tracker[string], g *queue.Group[string]) {
		register(g, "m", "a")
		g.Stop()
		time.Sleep(100 * bound)
		overdue(t, g, nil)
	})
}

// What died waits for its dead letter to be stored, not for an attempt.
func TestL6_DeadRequestIsNotOverdue(t *testing.T) {
	ofOneGroup(t, func(t *testing.T, tracker *queue.Tracker[string], g *queue.Group[string]) {
		m := register(g, "m", "a")
		attempt(tracker, "a", queue.Dead, errBroken)
		m.expect(t, died("a", errBroken, 1, true))
		time.Sleep(100 * bound)
		overdue(t, g, nil)
		m.Buried("a")
		m.expect(t, "settled, buried")
	})
}
