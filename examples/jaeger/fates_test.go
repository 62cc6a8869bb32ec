package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/list"
)

func TestFailedAttemptsShowTheirErrorAndNumber(t *testing.T) {
	var tries atomic.Int32
	w := newWorld(t, func(context.Context, string) (reconciler.Result, error) {
		if n := tries.Add(1); n <= 2 {
			return reconciler.Result{}, errors.New("no answer to try " + strconv.Itoa(int(n)))
		}
		return reconciler.Result{}, nil
	})
	spans := w.trace(w.publish(t.Context(), failingStage), processName, 1)
	delivery, attempts := named(spans, processName)[0], named(spans, reconcileName)
	if len(attempts) != 3 {
		t.Fatalf("%d attempts, want 3", len(attempts))
	}
	for _, a := range attempts {
		if a.parent != delivery.Span || !a.linksTo(delivery.ref) || !delivery.linksTo(a.ref) {
			t.Errorf("attempt %s and the delivery do not lead to each other", a.attrs["jsource.attempt"])
		}
		switch n := a.attrs["jsource.attempt"]; n {
		case "1", "2":
			w.expectError(a, "no answer to try "+n)
			w.expect(a, map[string]string{"jsource.outcome": "failed", "error.type": "*errors.errorString"})
		case "3":
			w.expect(a, map[string]string{"jsource.outcome": "success"})
			if a.failed || len(a.exceptions) > 0 {
				t.Error("the attempt that succeeded shows an error")
			}
		default:
			t.Errorf("there is an attempt number %q", n)
		}
	}
	w.expect(delivery, map[string]string{"jsource.settlement": "ack", "jsource.delivery.count": "1"})
	if delivery.failed {
		t.Errorf("the delivery that was acknowledged shows the error %q", delivery.message)
	}
}

func TestAttemptOfTheResyncIsARoot(t *testing.T) {
	inside := make(chan string, 10)
	w := newWorld(t, func(ctx context.Context, _ string) (reconciler.Result, error) {
		inside <- trace.SpanContextFromContext(ctx).TraceID().String()
		return reconciler.Result{}, nil
	}, list.New(func(context.Context) ([]string, error) { return []string{"listed"}, nil }))
	attempt := named(w.trace(<-inside, reconcileName, 1), reconcileName)[0]
	if attempt.parent != "" || len(attempt.links) != 0 {
		t.Errorf("it has the parent %q and links %v, want a root", attempt.parent, attempt.links)
	}
	w.expect(attempt, map[string]string{
		"jsource.cause": "resync", "jsource.owed": "0", "jsource.controller": controllerName, "jsource.outcome": "success",
	})
}

func TestDeadLetterIsInItsTrace(t *testing.T) {
	w := newWorld(t, func(context.Context, string) (reconciler.Result, error) {
		return reconciler.Result{}, reconciler.TerminalError(errors.New("there is no such Stage"))
	})
	id := w.publish(t.Context(), missingStage)
	spans := w.trace(id, processName, 1)
	delivery, attempt := named(spans, processName)[0], named(spans, reconcileName)[0]
	w.expect(delivery, map[string]string{"jsource.settlement": "term"})
	w.expectError(delivery, "there is no such Stage")
	w.expect(attempt, map[string]string{"jsource.outcome": "dead"})
	w.expectError(attempt, "there is no such Stage")

	// From the letter to the trace, and from the trace to the letter.
	admin, err := jsource.NewAdmin(w.broker.conn)
	if err != nil {
		t.Fatal(err)
	}
	letters := 0
	for letter, err := range admin.DeadLetters(t.Context(), jsource.LetterFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		letters++
		if got := letter.Header.Get("traceparent"); !strings.Contains(got, id) {
			t.Errorf("the letter carries the trace %q, want %s", got, id)
		}
		w.expect(delivery, map[string]string{"jsource.stream.sequence": strconv.FormatUint(letter.Sequence, 10)})
	}
	if letters != 1 {
		t.Errorf("%d dead letters, want 1", letters)
	}
}

func TestUnsampledMessageHasNoSpan(t *testing.T) {
	var reconciled atomic.Int32
	w := newWorld(t, func(context.Context, string) (reconciler.Result, error) {
		reconciled.Add(1)
		return reconciler.Result{}, nil
	})
	unsampled := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{7}, SpanID: trace.SpanID{7}, Remote: true,
	}))
	id := w.publish(unsampled, "one")
	w.settled()
	// What came after it is there: it would be there as well.
	w.trace(w.publish(t.Context(), "two"), processName, 1)
	if n := reconciled.Load(); n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}
	if spans, err := w.jaeger.trace(t.Context(), id); !errors.Is(err, errNoTrace) {
		t.Errorf("%d spans (%v), want none", len(spans), err)
	}
}
