package tracing_test

import (
	"context"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/levelstream/jsource/tracing"
)

func withBaggage(t *testing.T, ctx context.Context, text string) context.Context {
	t.Helper()
	b, err := baggage.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return baggage.ContextWithBaggage(ctx, b)
}

func TestPropagationWithoutSetup(t *testing.T) {
	want, sc := traceparent(true)
	ctx := withBaggage(t, trace.ContextWithSpanContext(context.Background(), sc), "tenant=a")
	header := tracing.Inject(ctx, nil)
	if !slices.Equal(header["traceparent"], want["traceparent"]) {
		t.Errorf("traceparent is %q, want %q", header["traceparent"], want["traceparent"])
	}
	got := tracing.Extract(context.Background(), header)
	if !trace.SpanContextFromContext(got).Equal(sc) {
		t.Errorf("extracted %v, want %v", trace.SpanContextFromContext(got), sc)
	}
	if v := baggage.FromContext(got).Member("tenant").Value(); v != "a" {
		t.Errorf("baggage tenant is %q, want %q", v, "a")
	}
}

func TestInjectNothing(t *testing.T) {
	if header := tracing.Inject(context.Background(), nil); header != nil {
		t.Errorf("made %v, want no header", header)
	}
	header := map[string][]string{"Nats-Msg-Id": {"1"}}
	tracing.Inject(context.Background(), header)
	if len(header) != 1 {
		t.Errorf("the header has become %v", header)
	}
	setPropagator(t, propagation.TraceContext{})
	if header := tracing.Inject(context.Background(), nil); header != nil {
		t.Errorf("made %v, want no header", header)
	}
}

// A forwarded message keeps no second spelling of its old trace.
func TestInjectReplacesOtherSpellings(t *testing.T) {
	want, sc := traceparent(true)
	header := map[string][]string{"Traceparent": {"old"}, "TRACEPARENT": {"older"}, "Trace": {"kept"}}
	got := tracing.Inject(trace.ContextWithSpanContext(context.Background(), sc), header)
	if len(header) != 2 || !slices.Equal(header["traceparent"], want["traceparent"]) {
		t.Errorf("the header has become %v", header)
	}
	if len(got) != len(header) {
		t.Errorf("Inject returned %v, not the header", got)
	}
}

func TestExtractSpelling(t *testing.T) {
	valid, sc := traceparent(true)
	value := valid["traceparent"]
	for _, tc := range []struct {
		name   string
		header map[string][]string
		want   trace.SpanContext
	}{
		{"exact", valid, sc},
		{"canonical", map[string][]string{"Traceparent": value}, sc},
		{"upper case", map[string][]string{"TRACEPARENT": value}, sc},
		{"exact first", map[string][]string{"Traceparent": {"old"}, "traceparent": value}, sc},
		{"exact but empty", map[string][]string{"traceparent": {}, "Traceparent": value}, sc},
		{"first in byte order", map[string][]string{"traceParent": {"old"}, "TraceParent": value}, sc},
		{"first in byte order that has a value", map[string][]string{"TRACEPARENT": nil, "TraceParent": value}, sc},
		{"another name", map[string][]string{"trace-parent": value}, trace.SpanContext{}},
		{"not valid", map[string][]string{"traceparent": {"00-0-0-01"}}, trace.SpanContext{}},
		{"nil", nil, trace.SpanContext{}},
	} {
		got := trace.SpanContextFromContext(tracing.Extract(context.Background(), tc.header))
		if !got.Equal(tc.want) {
			t.Errorf("%s: extracted %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestExtractEveryBaggageHeader(t *testing.T) {
	ctx := tracing.Extract(context.Background(), map[string][]string{"Baggage": {"a=1", "b=2"}})
	if got := baggage.FromContext(ctx).Len(); got != 2 {
		t.Errorf("%d members of baggage, want 2", got)
	}
}

// upperPropagator writes the span's id to a header of its own.
type upperPropagator struct{ key string }

func (p upperPropagator) Inject(ctx context.Context, c propagation.TextMapCarrier) {
	c.Set(p.key, trace.SpanContextFromContext(ctx).SpanID().String())
}

func (p upperPropagator) Extract(ctx context.Context, c propagation.TextMapCarrier) context.Context {
	id, err := trace.SpanIDFromHex(c.Get(p.key))
	if err != nil || !slices.Contains(c.Keys(), p.key) {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: id,
	}))
}

func (p upperPropagator) Fields() []string { return []string{p.key} }

func TestPropagatorThatWasSet(t *testing.T) {
	_, sc := traceparent(true)
	ctx := trace.ContextWithSpanContext(context.Background(), sc)
	names := func() []string {
		var names []string
		for name := range tracing.Inject(ctx, nil) {
			names = append(names, name)
		}
		return names
	}
	for _, tc := range []struct {
		name string
		set  propagation.TextMapPropagator
		want string
	}{
		{"one", upperPropagator{"X-Own"}, "X-Own"},
		{"another of its type", upperPropagator{"X-Other"}, "X-Other"},
		{"a composite", propagation.NewCompositeTextMapPropagator(upperPropagator{"X-First"}), "X-First"},
		{"another composite", propagation.NewCompositeTextMapPropagator(upperPropagator{"X-Second"}), "X-Second"},
		{"one that writes nothing", propagation.NewCompositeTextMapPropagator(), "traceparent"},
	} {
		setPropagator(t, tc.set)
		for range 2 {
			if got := names(); !slices.Equal(got, []string{tc.want}) {
				t.Errorf("propagator %s wrote %q, want %q", tc.name, got, tc.want)
			}
		}
	}
	setPropagator(t, upperPropagator{"X-Own"})
	got := trace.SpanContextFromContext(tracing.Extract(context.Background(), tracing.Inject(ctx, nil)))
	if got.SpanID() != sc.SpanID() {
		t.Errorf("extracted span %v, want %v", got.SpanID(), sc.SpanID())
	}
}

// The composite propagator, which everyone sets, must not be asked for its fields each time.
func TestExtractAllocatesNothingWithoutTrace(t *testing.T) {
	setPropagator(t, propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	ctx, header := context.Background(), map[string][]string{"Nats-Msg-Id": {"1"}}
	if allocs := testing.AllocsPerRun(1000, func() { tracing.Extract(ctx, header) }); allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}
