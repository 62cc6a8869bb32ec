package tracing

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// maxLinks is the number of links that a span of OpenTelemetry's SDK keeps, unless it was told otherwise.
// Past it the SDK drops the link that was added first, and says nothing.
const maxLinks = 128

// Attempt is what is known of an attempt when it begins.
type Attempt struct {
	Number int    // counted from 1 since the request last succeeded
	Owed   int    // messages that the attempt covers
	Cause  string // what asked for it, "" if that is not known
}

// StartAttempt starts the span of one attempt of controller. covered are the spans of the deliveries it
// covers, oldest first, as [Covered] returns them.
//
// The span is a child of the oldest delivery that is sampled and is linked with all that are, both ways.
// It keeps links to the oldest 128 of them; every delivery gets its link to the attempt. If covered is
// empty the span is a root; if nothing in it is sampled there is no span, and the context carries the
// oldest delivery's trace as far as it is known.
//
// Call the function that is returned when the attempt has ended, with its outcome and error. It is nil when
// there is nothing to record.
func StartAttempt(ctx context.Context, controller string, a Attempt, covered []trace.Span) (
	context.Context, func(outcome string, err error),
) {
	t := tracer()
	if t == nil {
		return ctx, nil
	}
	opts := make([]trace.SpanStartOption, 0, 3)
	lacking := 0
	if len(covered) == 0 {
		opts = append(opts, trace.WithNewRoot())
	} else {
		parent, links, dropped := family(covered)
		if parent != nil {
			ctx = trace.ContextWithSpan(ctx, parent)
		}
		if !Sampled(parent) {
			return ctx, nil
		}
		opts, lacking = append(opts, trace.WithLinks(links...)), dropped
	}
	attrs := make(attributes, 0, 5)
	attrs.add(controllerKey.String(controller))
	attrs.add(attemptKey.Int(a.Number))
	attrs.add(owedKey.Int(a.Owed))
	attrs.text(causeKey, a.Cause)
	if lacking > 0 {
		attrs.add(linksDroppedKey.Int(lacking))
	}
	opts = append(opts, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(attrs...))
	ctx, span := t.Start(ctx, "reconcile "+controller, opts...)
	if !span.IsRecording() {
		return ctx, nil
	}
	back := trace.Link{SpanContext: span.SpanContext()}
	for _, s := range covered {
		if Sampled(s) {
			s.AddLink(back)
		}
	}
	return ctx, func(outcome string, err error) {
		span.SetAttributes(outcomeKey.String(outcome))
		fail(span, err)
		span.End()
	}
}

// family finds the attempt's parent, the links it is to have and the number of those it cannot have. The
// parent is the oldest sampled span; failing that, with no links, the oldest whose trace is known, or nil.
func family(covered []trace.Span) (parent trace.Span, links []trace.Link, dropped int) {
	var unsampled trace.Span
	sampled := 0
	for _, s := range covered {
		switch {
		case Sampled(s):
			if parent == nil {
				parent = s
			}
			sampled++
		case unsampled == nil && s != nil && s.SpanContext().IsValid():
			unsampled = s
		}
	}
	if parent == nil {
		return unsampled, nil, 0
	}
	// The parent's comes last: whatever limit the SDK was given, it is the last that it drops.
	links = make([]trace.Link, min(sampled, maxLinks))
	n := len(links)
	for _, s := range covered {
		if n > 0 && Sampled(s) {
			n--
			links[n].SpanContext = s.SpanContext()
		}
	}
	return parent, links, sampled - len(links)
}
