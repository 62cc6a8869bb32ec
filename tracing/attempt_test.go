package tracing_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/levelstream/jsource/tracing"
)

// deliveries are n deliveries, each with a publisher's trace of its own.
func deliveries(t *testing.T, n int) []trace.Span {
	t.Helper()
	spans := make([]trace.Span, n)
	for i := range spans {
		if _, spans[i] = tracing.StartProcess(context.Background(), nil, order); spans[i] == nil {
			t.Fatal("a delivery has no span")
		}
	}
	return spans
}

func settle(deliveries []trace.Span) {
	for _, d := range deliveries {
		tracing.EndProcess(d, tracing.Ack, 1, nil)
	}
}

func TestAttemptIsChildOfOldestAndLinkedBothWays(t *testing.T) {
	spans := record(t)
	covered := deliveries(t, 3)
	ctx, end := tracing.StartAttempt(context.Background(), "invoices",
		tracing.Attempt{Number: 2, Owed: 3, Cause: "message"}, covered)
	_, inner := otel.Tracer("user").Start(ctx, "query")
	inner.End()
	end("success", nil)
	settle(covered)

	s, query := ended(t, spans, "reconcile invoices"), ended(t, spans, "query")
	if !s.Parent.Equal(covered[0].SpanContext()) {
		t.Errorf("the parent is %v, want the oldest delivery, %v", s.Parent, covered[0].SpanContext())
	}
	if query.Parent.SpanID() != s.SpanContext.SpanID() {
		t.Error("what the reconciler starts is no child")
	}
	if s.SpanKind != trace.SpanKindInternal || s.Status.Code != codes.Unset || len(s.Events) != 0 {
		t.Errorf("kind %v, status %v, events %v", s.SpanKind, s.Status, s.Events)
	}
	if len(s.Links) != 3 {
		t.Errorf("%d links, want 3", len(s.Links))
	}
	for i, d := range covered {
		if !linked(s, d.SpanContext()) {
			t.Errorf("no link to delivery %d", i)
		}
	}
	back := 0
	for _, d := range spans.GetSpans() {
		if d.Name == "process orders" && linked(d, s.SpanContext) {
			back++
		}
	}
	if back != 3 {
		t.Errorf("%d deliveries have a link to the attempt, want 3", back)
	}
	wantAttributes(t, s,
		attribute.String("jsource.controller", "invoices"),
		attribute.Int("jsource.attempt", 2),
		attribute.Int("jsource.owed", 3),
		attribute.String("jsource.cause", "message"),
		attribute.String("jsource.outcome", "success"),
	)
	wantNoAttribute(t, s, "jsource.links.dropped")
}

func TestAttemptOfMoreThanLinksAllow(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit int
	}{
		{"the SDK's limit", sdktrace.DefaultLinkCountLimit},
		{"a lower limit", 8},
		{"a higher limit", 1000},
		{"no limit", -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			limits := sdktrace.NewSpanLimits()
			limits.LinkCountLimit = tc.limit
			spans := record(t, sdktrace.WithRawSpanLimits(limits))
			covered := deliveries(t, 300)
			_, end := tracing.StartAttempt(context.Background(), "invoices",
				tracing.Attempt{Number: 1, Owed: 300}, covered)
			end("success", nil)
			settle(covered)

			s := ended(t, spans, "reconcile invoices")
			want := 128
			if tc.limit > 0 && tc.limit < want {
				want = tc.limit
			}
			if len(s.Links) != want {
				t.Errorf("%d links, want %d", len(s.Links), want)
			}
			for i, d := range covered[:want] {
				if !linked(s, d.SpanContext()) {
					t.Errorf("no link to delivery %d; the oldest are to be kept", i)
				}
			}
			if !s.Parent.Equal(covered[0].SpanContext()) {
				t.Error("the parent is not the oldest delivery")
			}
			wantAttributes(t, s, attribute.Int("jsource.owed", 300), attribute.Int("jsource.links.dropped", 172))
			for _, d := range spans.GetSpans() {
				if d.Name == "process orders" && !linked(d, s.SpanContext) {
					t.Fatal("a delivery has no link to the attempt")
				}
			}
		})
	}
}

func TestAttemptSkipsTheUnsampled(t *testing.T) {
	spans := record(t)
	header, _ := traceparent(false)
	unsampled, _ := tracing.StartProcess(context.Background(), header, order)
	sampled := deliveries(t, 2)
	covered := slices.Concat([]trace.Span{nil, trace.SpanFromContext(unsampled)}, sampled, []trace.Span{nil})
	_, end := tracing.StartAttempt(context.Background(), "invoices", tracing.Attempt{Number: 1, Owed: 5}, covered)
	end("success", nil)

	s := ended(t, spans, "reconcile invoices")
	if !s.Parent.Equal(sampled[0].SpanContext()) {
		t.Errorf("the parent is %v, want the oldest sampled delivery, %v", s.Parent, sampled[0].SpanContext())
	}
	if len(s.Links) != 2 || !linked(s, sampled[0].SpanContext()) || !linked(s, sampled[1].SpanContext()) {
		t.Errorf("links %v, want those of the 2 sampled deliveries", s.Links)
	}
	wantAttributes(t, s, attribute.Int("jsource.owed", 5))
	wantNoAttribute(t, s, "jsource.links.dropped")
}

func TestAttemptOfUnsampledOnlyHasNoSpan(t *testing.T) {
	spans := record(t, sdktrace.WithSampler(sdktrace.AlwaysSample()))
	header, sc := traceparent(false)
	unsampled, _ := tracing.StartProcess(context.Background(), header, order)
	attempt := tracing.Attempt{Number: 1, Owed: 2}

	ctx, end := tracing.StartAttempt(context.Background(), "invoices", attempt,
		[]trace.Span{nil, trace.SpanFromContext(unsampled)})
	if end != nil {
		t.Error("there is a span")
	}
	if got := trace.SpanContextFromContext(ctx); !got.Equal(sc) {
		t.Errorf("the context carries %v, want the publisher's %v", got, sc)
	}
	ctx, end = tracing.StartAttempt(context.Background(), "invoices", attempt, []trace.Span{nil, nil})
	if end != nil || ctx != context.Background() {
		t.Error("there is a span")
	}
	if n := len(spans.GetSpans()); n != 0 {
		t.Errorf("%d spans", n)
	}
}

func TestAttemptThatNoMessageCausedIsRoot(t *testing.T) {
	spans := record(t)
	ctx, starting := otel.Tracer("user").Start(context.Background(), "starting")
	defer starting.End()
	_, end := tracing.StartAttempt(ctx, "invoices", tracing.Attempt{Number: 1, Cause: "resync"}, nil)
	end("success", nil)
	s := ended(t, spans, "reconcile invoices")
	if s.Parent.IsValid() || s.SpanContext.TraceID() == starting.SpanContext().TraceID() || len(s.Links) != 0 {
		t.Errorf("parent %v, links %v, want a root without links", s.Parent, s.Links)
	}
	wantAttributes(t, s, attribute.String("jsource.cause", "resync"), attribute.Int("jsource.owed", 0))
}

func TestAttemptFails(t *testing.T) {
	spans := record(t)
	covered := deliveries(t, 1)
	_, end := tracing.StartAttempt(context.Background(), "invoices", tracing.Attempt{Number: 4, Owed: 1}, covered)
	end("failed", errors.New("database is down"))
	s := ended(t, spans, "reconcile invoices")
	if s.Status.Code != codes.Error || s.Status.Description != "database is down" {
		t.Errorf("status %v", s.Status)
	}
	if len(s.Events) != 1 || s.Events[0].Name != "exception" {
		t.Errorf("events %v, want the recorded error", s.Events)
	}
	wantAttributes(t, s, attribute.String("jsource.outcome", "failed"), attribute.Int("jsource.attempt", 4))
	wantNoAttribute(t, s, "jsource.cause")
}

func TestAttemptThatTheSamplerDrops(t *testing.T) {
	spans := record(t)
	covered := deliveries(t, 2)
	record(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	ctx, end := tracing.StartAttempt(context.Background(), "invoices",
		tracing.Attempt{Number: 1, Owed: 2}, covered)
	if end != nil {
		t.Error("there is a span")
	}
	if got := trace.SpanContextFromContext(ctx); got.TraceID() != covered[0].SpanContext().TraceID() {
		t.Errorf("the context carries %v, want the oldest delivery's trace", got)
	}
	settle(covered)
	for _, d := range spans.GetSpans() {
		if len(d.Links) != 0 {
			t.Error("a delivery has a link to a span that nobody will see")
		}
	}
}
