package tracing_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/levelstream/jsource/tracing"
)

var order = tracing.Message{
	Topic:      "orders",
	Subject:    "orders.created",
	Stream:     "ORDERS",
	Sequence:   7,
	Stored:     time.Date(2026, 2, 3, 5, 5, 6, 123456789, time.FixedZone("", 3600)),
	Delivery:   2,
	Size:       300,
	Durable:    "invoices-orders",
	Controller: "invoices",
}

func TestProcessIsChildOfSend(t *testing.T) {
	spans := record(t)
	sendCtx, send := tracing.StartSend(withBaggage(t, context.Background(), "tenant=a"), "orders", tracing.Send{})
	header := tracing.Inject(sendCtx, nil)
	tracing.EndSend(send, tracing.Stored{}, nil)

	ctx, span := tracing.StartProcess(context.Background(), header, order)
	_, inner := otel.Tracer("user").Start(ctx, "mapper")
	inner.End()
	tracing.EndProcess(span, tracing.Ack, 3, nil)

	sent, s, mapper := ended(t, spans, "send orders"), ended(t, spans, "process orders"), ended(t, spans, "mapper")
	if s.SpanContext.TraceID() != sent.SpanContext.TraceID() || s.Parent.SpanID() != sent.SpanContext.SpanID() {
		t.Errorf("the parent is %v, want %v", s.Parent, sent.SpanContext)
	}
	if !s.Parent.IsRemote() {
		t.Error("the parent is not a remote one")
	}
	if mapper.Parent.SpanID() != s.SpanContext.SpanID() {
		t.Error("what the mapper starts is no child")
	}
	if v := baggage.FromContext(ctx).Member("tenant").Value(); v != "a" {
		t.Errorf("baggage tenant is %q, want %q", v, "a")
	}
	if s.SpanKind != trace.SpanKindConsumer || s.Status.Code != codes.Unset {
		t.Errorf("kind %v, status %v", s.SpanKind, s.Status)
	}
	wantAttributes(t, s,
		attribute.String("messaging.system", "nats"),
		attribute.String("messaging.destination.name", "orders.created"),
		attribute.String("messaging.message.id", "ORDERS:7"),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.operation.name", "process"),
		attribute.Int("messaging.message.body.size", 300),
		attribute.String("messaging.consumer.group.name", "invoices-orders"),
		attribute.String("jsource.stream", "ORDERS"),
		attribute.Int("jsource.stream.sequence", 7),
		attribute.String("jsource.stored", "2026-02-03T04:05:06.123456789Z"),
		attribute.Int("jsource.delivery.count", 2),
		attribute.String("jsource.controller", "invoices"),
		attribute.String("jsource.settlement", "ack"),
		attribute.Int("jsource.owed", 3),
	)
}

func TestProcessMessageID(t *testing.T) {
	for _, name := range []string{"Nats-Msg-Id", "nats-msg-id"} {
		spans := record(t)
		_, span := tracing.StartProcess(context.Background(), map[string][]string{name: {"c1"}}, order)
		tracing.EndProcess(span, tracing.Ack, 0, nil)
		wantAttributes(t, ended(t, spans, "process orders"), attribute.String("messaging.message.id", "c1"))
	}
}

func TestProcessOfUnknownAge(t *testing.T) {
	spans := record(t)
	m := order
	m.Stored = time.Time{}
	_, span := tracing.StartProcess(context.Background(), nil, m)
	tracing.EndProcess(span, tracing.Ack, 0, nil)
	wantNoAttribute(t, ended(t, spans, "process orders"), "jsource.stored")
}

// The span in which the source was started has nothing to do with the messages it gets.
func TestProcessWithoutPublishersTraceIsRoot(t *testing.T) {
	spans := record(t)
	ctx, starting := otel.Tracer("user").Start(context.Background(), "starting")
	defer starting.End()
	_, span := tracing.StartProcess(ctx, nil, order)
	tracing.EndProcess(span, tracing.Ack, 0, nil)
	s := ended(t, spans, "process orders")
	if s.Parent.IsValid() || s.SpanContext.TraceID() == starting.SpanContext().TraceID() {
		t.Errorf("the span is a child of %v, want a root", s.Parent)
	}
}

func TestProcessOfUnsampledPublisher(t *testing.T) {
	spans := record(t, sdktrace.WithSampler(sdktrace.AlwaysSample())) // which would sample it all the same
	header, sc := traceparent(false)
	ctx, span := tracing.StartProcess(context.Background(), header, order)
	if span != nil {
		t.Fatal("an unsampled message has a span")
	}
	tracing.EndProcess(span, tracing.Ack, 1, nil)
	if got := trace.SpanContextFromContext(ctx); !got.Equal(sc) {
		t.Errorf("the context carries %v, want the publisher's %v", got, sc)
	}
	got, want := tracing.Inject(ctx, nil)["traceparent"], header["traceparent"]
	if !slices.Equal(got, want) {
		t.Errorf("what is published onwards says %q, want %q", got, want)
	}
	if n := len(spans.GetSpans()); n != 0 {
		t.Errorf("%d spans", n)
	}
}

func TestProcessThatTheSamplerDrops(t *testing.T) {
	record(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	header, sc := traceparent(true)
	ctx, span := tracing.StartProcess(context.Background(), header, order)
	if span != nil {
		t.Fatal("there is a span")
	}
	if got := trace.SpanContextFromContext(ctx); got.TraceID() != sc.TraceID() || got.IsSampled() {
		t.Errorf("the context carries %v, want the publisher's trace, unsampled", got)
	}
}

func TestProcessFails(t *testing.T) {
	spans := record(t)
	_, span := tracing.StartProcess(context.Background(), nil, order)
	tracing.EndProcess(span, tracing.GivenBack, 1, errors.New("the mapper failed"))
	s := ended(t, spans, "process orders")
	if s.Status.Code != codes.Error || s.Status.Description != "the mapper failed" {
		t.Errorf("status %v", s.Status)
	}
	wantAttributes(t, s, attribute.String("jsource.settlement", "given_back"))
}
