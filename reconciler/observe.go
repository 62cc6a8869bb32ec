package reconciler

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/tracing"
)

// Observe returns an observer that gives each attempt a span named after controller, linked with the spans
// of the messages it covers (see package tracing). A [Controller] has one already; it is for the tracker
// of another engine:
//
//	tracker.SetObserver(reconciler.Observe[request]("invoices"))
//
// Without a tracer provider it does nothing.
func Observe[request comparable](controller string) queue.Observer[request] {
	return func(ctx context.Context, a *queue.Attempt[request]) (context.Context, func(queue.Outcome, error)) {
		if !tracing.Enabled() {
			return ctx, nil
		}
		return observe(ctx, controller, a)
	}
}

func observe[request comparable](ctx context.Context, controller string, a *queue.Attempt[request]) (
	context.Context, func(queue.Outcome, error),
) {
	about := tracing.Attempt{Number: a.Number(), Owed: a.Owed()}
	if ours, ok := ctx.Value(loggerKey{}).(*attemptContext[request]); ok { // no other engine runs it
		about.Number, about.Cause = ours.number, ours.cause.String()
	}
	ctx, end := tracing.StartAttempt(ctx, controller, about, coveredSpans(a))
	if end == nil {
		return ctx, nil
	}
	return ctx, func(o queue.Outcome, err error) {
		if err == nil && (o == queue.Failed || o == queue.Dead) {
			err = errPolicy
		}
		end(o.String(), err)
	}
}

// errPolicy is what a span says of an attempt that returned no error and failed nevertheless.
var errPolicy = errors.New("the outcome policy calls it a failure")

// coveredSpans collects the spans of the messages that a covers, oldest first. Of those that are not
// sampled the first is enough: an attempt that covers only such has no span, and when 1 in 1000 is
// sampled, a request owed by many must not cost memory for the 999. The loop runs under the tracker's
// lock and only collects.
func coveredSpans[request comparable](a *queue.Attempt[request]) []trace.Span {
	var spans []trace.Span
	for m := range a.Covered() {
		c, ok := m.(tracing.Covered)
		if !ok {
			continue
		}
		if s := c.Span(); tracing.Sampled(s) || len(spans) == 0 {
			spans = append(spans, s)
		}
	}
	return spans
}
