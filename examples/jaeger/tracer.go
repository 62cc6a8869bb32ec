package main

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// setUpTracing sends the spans of this process to endpoint, over OTLP/gRPC. Shut the provider down at the end: it
// holds spans that are not sent yet.
func setUpTracing(ctx context.Context, service, endpoint string) (*sdktrace.TracerProvider, error) {
	exporter, err := otlptracegrpc.New(ctx,
		otlptracegrpc.WithEndpoint(endpoint), // "localhost:4317"
		otlptracegrpc.WithInsecure(),         // no TLS
	)
	if err != nil {
		return nil, fmt.Errorf("setting up the export of traces to %s: %w", endpoint, err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(resource.NewSchemaless(semconv.ServiceName(service))),
		// A process that is killed takes with it what it has not sent: hence not the default, 5 seconds.
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(200*time.Millisecond)),
		// Who begins a trace decides whether it is sampled: here always, in production perhaps
		// sdktrace.TraceIDRatioBased(0.01). Everybody else goes along.
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
	)
	otel.SetTracerProvider(provider)
	return provider, nil
}

// shutDown sends what is left, even when ctx has ended.
func shutDown(ctx context.Context, provider *sdktrace.TracerProvider) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if err := provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("sending the last spans: %w", err)
	}
	return nil
}
