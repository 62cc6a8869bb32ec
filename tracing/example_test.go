package tracing_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/levelstream/jsource/tracing"
)

// A message on its way from the publisher through the stream to the attempt that settles it.
func Example() {
	spans := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	defer otel.SetTracerProvider(before)

	// The publisher.
	ctx, send := tracing.StartSend(context.Background(), "orders", tracing.Send{Subject: "orders.created"})
	header := tracing.Inject(ctx, nil)
	tracing.EndSend(send, tracing.Stored{Stream: "ORDERS", Sequence: 7}, nil)

	// The source, in another process. Its mapper gets the context.
	_, delivery := tracing.StartProcess(context.Background(), header, tracing.Message{
		Topic: "orders", Subject: "orders.created", Stream: "ORDERS", Sequence: 7, Delivery: 1,
	})

	// The engine. The reconciler gets the context.
	_, end := tracing.StartAttempt(context.Background(), "invoices",
		tracing.Attempt{Number: 1, Owed: 1}, []trace.Span{delivery})
	if end != nil {
		end("success", nil)
	}
	tracing.EndProcess(delivery, tracing.Ack, 1, nil)

	names := map[trace.SpanID]string{}
	for _, s := range spans.GetSpans() {
		names[s.SpanContext.SpanID()] = s.Name
	}
	for _, s := range spans.GetSpans() {
		fmt.Printf("%s: parent %q, %d links\n", s.Name, names[s.Parent.SpanID()], len(s.Links))
	}
	// Output:
	// send orders: parent "", 0 links
	// reconcile invoices: parent "process orders", 1 links
	// process orders: parent "send orders", 1 links
}
