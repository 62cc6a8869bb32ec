package bench

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// sampled is c in a process that traces, with publishers that sample such a share of the events. Spans leave in batches, as they do in
// production, and none is dropped; what sending them costs is not part of it.
func sampled(c Contender, name string, share float64) Contender {
	start := c.Start
	c.Name, c.Traced = name, share
	c.Start = func(ctx context.Context, in *Intake) (func() error, error) {
		provider := sdktrace.NewTracerProvider(
			sdktrace.WithBatcher(tracetest.NewNoopExporter(), sdktrace.WithBlocking()))
		was := otel.GetTracerProvider()
		otel.SetTracerProvider(provider)
		end := func() error {
			otel.SetTracerProvider(was)
			return provider.Shutdown(context.WithoutCancel(ctx))
		}
		stop, err := start(ctx, in)
		if err != nil {
			return nil, errors.Join(err, end())
		}
		return func() error { return errors.Join(stop(), end()) }, nil
	}
	return c
}

// untraced is c in a process that does not trace, with the events that [sampled] gets: what their headers cost, it
// pays too.
func untraced(c Contender, name string, share float64) Contender {
	c.Name, c.Traced = name, share
	return c
}
