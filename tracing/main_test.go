package tracing_test

import (
	"os"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// The first propagator that is set becomes, for ever, what the one that stands in for it does. One that
// does nothing leaves that as if none had been set, so that tests can set others and go back.
func TestMain(m *testing.M) {
	unset := otel.GetTextMapPropagator()
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator())
	otel.SetTextMapPropagator(unset)
	os.Exit(m.Run())
}

// record sets a provider that keeps every span that ends, until the test does.
func record(t testing.TB, opts ...sdktrace.TracerProviderOption) *tracetest.InMemoryExporter {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	setProvider(t, sdktrace.NewTracerProvider(append(opts, sdktrace.WithSyncer(exporter))...))
	return exporter
}

func setProvider(t testing.TB, p trace.TracerProvider) {
	t.Helper()
	before := otel.GetTracerProvider()
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	otel.SetTracerProvider(p)
}

func setPropagator(t testing.TB, p propagation.TextMapPropagator) {
	t.Helper()
	before := otel.GetTextMapPropagator()
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	otel.SetTextMapPropagator(p)
}

// ended returns the one span of that name that has ended.
func ended(t testing.TB, exporter *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	for _, s := range exporter.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans named %q have ended, want 1", len(found), name)
	}
	return found[0]
}

// wantAttributes checks that s has each of want with that value.
func wantAttributes(t testing.TB, s tracetest.SpanStub, want ...attribute.KeyValue) {
	t.Helper()
	got := attribute.NewSet(s.Attributes...)
	for _, w := range want {
		if v, ok := got.Value(w.Key); !ok || v != w.Value {
			t.Errorf("%s: %s is %q, want %q", s.Name, w.Key, v.String(), w.Value.String())
		}
	}
}

func wantNoAttribute(t testing.TB, s tracetest.SpanStub, key attribute.Key) {
	t.Helper()
	set := attribute.NewSet(s.Attributes...)
	if v, ok := set.Value(key); ok {
		t.Errorf("%s: %s is %q, want none", s.Name, key, v.String())
	}
}

// linked reports whether s has a link to to.
func linked(s tracetest.SpanStub, to trace.SpanContext) bool {
	for _, l := range s.Links {
		if l.SpanContext.TraceID() == to.TraceID() && l.SpanContext.SpanID() == to.SpanID() {
			return true
		}
	}
	return false
}

// traceparent is a header as a publisher in another process writes it.
func traceparent(sampled bool) (map[string][]string, trace.SpanContext) {
	flags, text := trace.TraceFlags(0), "00"
	if sampled {
		flags, text = trace.FlagsSampled, "01"
	}
	sc := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID:    trace.TraceID{0: 1, 15: 2},
		SpanID:     trace.SpanID{0: 3, 7: 4},
		TraceFlags: flags,
		Remote:     true,
	})
	return map[string][]string{
		"traceparent": {"00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-" + text},
	}, sc
}
