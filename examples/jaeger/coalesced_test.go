package main

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/levelstream/jsource/reconciler"
)

const (
	processName   = "process kargo.promotionrequests"
	reconcileName = "reconcile " + controllerName
	sendName      = "send kargo.promotionrequests"
)

// From each of 300 publishers' traces one reaches the attempt that reconciled its message, and from the attempt each
// of them, over what Jaeger tells.
func TestEachOf300CoalescedMessagesIsReachedAndReaches(t *testing.T) {
	const many, kept = 300, 128
	begun, release := make(chan struct{}, 10), make(chan struct{})
	w := newWorld(t, func(ctx context.Context, _ string) (reconciler.Result, error) {
		begun <- struct{}{}
		select {
		case <-release:
			return reconciler.Result{}, nil
		case <-ctx.Done():
			return reconciler.Result{}, context.Cause(ctx)
		}
	})
	from := time.Now()
	w.publish(t.Context(), hotStage)
	<-begun
	traces := make([]string, many)
	for i := range traces {
		traces[i] = w.publish(t.Context(), hotStage)
	}
	w.wait("the key owes all of them", func(context.Context) (bool, error) {
		held := w.source.Status(1).Holding
		return len(held) == 1 && held[0].Messages == many+1, nil
	})
	close(release)
	w.settled()

	// There.
	var attempt *span
	byRef := map[ref]*span{}
	deliveries := map[ref]bool{}
	for i, id := range traces {
		spans := w.trace(id, processName, 1)
		for _, s := range spans {
			byRef[s.ref] = s
		}
		delivery := named(spans, processName)[0]
		send := byRef[ref{Trace: id, Span: delivery.parent}]
		if send == nil || send.name != sendName || byRef[ref{Trace: id, Span: send.parent}] == nil {
			t.Fatalf("the delivery of message %d is no child of its publisher's span", i)
		}
		if len(delivery.links) != 1 {
			t.Fatalf("the delivery of message %d has %d links, want that to its attempt", i, len(delivery.links))
		}
		if attempt == nil {
			l := delivery.links[0]
			for _, s := range w.trace(l.Trace, reconcileName, 1) {
				if s.ref == l {
					attempt = s
				}
			}
			if attempt == nil || attempt.name != reconcileName {
				t.Fatalf("the link of message %d leads to no attempt", i)
			}
			path := []time.Time{send.start, send.end, delivery.start, attempt.start, attempt.end, delivery.end}
			if path[1].After(path[2]) { // the delivery was quicker than the stream's answer
				path[1] = path[2]
			}
			for step := 1; step < len(path); step++ {
				if path[step].Before(path[step-1]) {
					t.Errorf("step %d of the critical path ends before it begins: %v", step, path)
				}
			}
		}
		if !delivery.linksTo(attempt.ref) {
			t.Fatalf("message %d leads to another attempt", i)
		}
		deliveries[delivery.ref] = true
	}
	w.expect(attempt, map[string]string{
		"jsource.owed": strconv.Itoa(many), "jsource.links.dropped": strconv.Itoa(many - kept),
		"jsource.cause": "message", "jsource.attempt": "1", "jsource.outcome": "success",
	})

	// And back: over the links that a span can keep, for the rest by a search for those that have a link to it.
	if p := (ref{Trace: attempt.Trace, Span: attempt.parent}); !deliveries[p] || attempt.Trace != traces[0] {
		t.Error("the attempt is no child of the oldest delivery")
	}
	if len(attempt.links) != kept {
		t.Errorf("the attempt has %d links, want %d", len(attempt.links), kept)
	}
	for _, l := range attempt.links {
		if !deliveries[l] {
			t.Errorf("the link to %v leads to none of the deliveries", l)
		}
	}
	found, err := w.jaeger.find(t.Context(), search{service: w.service, name: processName, from: from, to: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	back := 0
	for _, s := range found {
		if s.linksTo(attempt.ref) {
			if !deliveries[s.ref] {
				t.Errorf("%v has a link to the attempt", s.ref)
			}
			back++
		}
	}
	if back != many {
		t.Errorf("%d deliveries are found that have a link to the attempt, want %d", back, many)
	}
}
