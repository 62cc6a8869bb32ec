package tracing_test

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/levelstream/jsource/tracing"
)

func TestSend(t *testing.T) {
	spans := record(t)
	ctx, span := tracing.StartSend(context.Background(), "orders",
		tracing.Send{Subject: "orders.created", ID: "c1", Size: 12})
	if !trace.SpanContextFromContext(ctx).Equal(span.SpanContext()) {
		t.Error("the context does not carry the span")
	}
	tracing.EndSend(span, tracing.Stored{Stream: "ORDERS", Sequence: 7, Duplicate: true}, nil)

	s := ended(t, spans, "send orders")
	if s.SpanKind != trace.SpanKindProducer || s.Status.Code != codes.Unset {
		t.Errorf("kind %v, status %v", s.SpanKind, s.Status)
	}
	wantAttributes(t, s,
		attribute.String("messaging.system", "nats"),
		attribute.String("messaging.destination.name", "orders.created"),
		attribute.String("messaging.message.id", "c1"),
		attribute.String("messaging.operation.type", "send"),
		attribute.String("messaging.operation.name", "send"),
		attribute.Int("messaging.message.body.size", 12),
		attribute.String("jsource.stream", "ORDERS"),
		attribute.Int("jsource.stream.sequence", 7),
		attribute.Bool("jsource.duplicate", true),
	)
}

func TestSendFails(t *testing.T) {
	spans := record(t)
	_, span := tracing.StartSend(context.Background(), "orders", tracing.Send{Subject: "orders.created"})
	tracing.EndSend(span, tracing.Stored{}, errors.New("no answer"))
	s := ended(t, spans, "send orders")
	if s.Status.Code != codes.Error || s.Status.Description != "no answer" {
		t.Errorf("status %v", s.Status)
	}
	wantAttributes(t, s, attribute.String("error.type", "*errors.errorString"))
	wantNoAttribute(t, s, "jsource.stream.sequence")
	wantNoAttribute(t, s, "messaging.message.id")
}

// Without a provider the span must be another than the caller's, which ends when the caller says so.
func TestSendDisabledLeavesTheCallersSpan(t *testing.T) {
	_, sc := traceparent(true)
	caller := trace.ContextWithSpanContext(context.Background(), sc)
	ctx, span := tracing.StartSend(caller, "orders", tracing.Send{})
	if span == nil || span.SpanContext().IsValid() {
		t.Errorf("the span is %v", span)
	}
	if !trace.SpanContextFromContext(ctx).Equal(sc) {
		t.Error("the context has lost its trace")
	}
	tracing.EndSend(span, tracing.Stored{}, errors.New("no answer"))
	tracing.EndSend(nil, tracing.Stored{}, nil)
}
