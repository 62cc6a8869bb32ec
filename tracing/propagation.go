package tracing

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// w3c propagates when nothing else was set up: a trace that ends at the stream because of one forgotten
// line helps nobody.
var w3c = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

var propagators memo[propagation.TextMapPropagator, propagation.TextMapPropagator]

// propagator is what otel.SetTextMapPropagator set, or W3C's if it set nothing that writes a header.
func propagator() (p propagation.TextMapPropagator, chosen bool) {
	if p = propagators.get(otel.GetTextMapPropagator(), onlyIfSet); p != nil {
		return p, true
	}
	return w3c, false
}

// onlyIfSet returns p, and nil if p writes no header.
func onlyIfSet(p propagation.TextMapPropagator) propagation.TextMapPropagator {
	if p == nil || len(p.Fields()) == 0 {
		return nil
	}
	return p
}

// Inject writes the trace that ctx is in, and its baggage, to header, and returns header. A nil header is
// made if there is something to write. It works without a tracer provider too: a trace that came with a
// request is passed on.
func Inject(ctx context.Context, header map[string][]string) map[string][]string {
	p, chosen := propagator()
	if header != nil {
		p.Inject(ctx, carrier(header))
		return header
	}
	if !chosen && !trace.SpanContextFromContext(ctx).IsValid() && baggage.FromContext(ctx).Len() == 0 {
		return nil // what a message costs when nobody traces
	}
	made := carrier{}
	p.Inject(ctx, made)
	if len(made) == 0 {
		return nil
	}
	return made
}

// Extract returns ctx in the trace, and with the baggage, that header names; ctx itself if it names none.
func Extract(ctx context.Context, header map[string][]string) context.Context {
	if len(header) == 0 {
		return ctx
	}
	p, _ := propagator()
	return p.Extract(ctx, carrier(header))
}
