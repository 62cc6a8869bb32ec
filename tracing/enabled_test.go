package tracing_test

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/levelstream/jsource/tracing"
)

// uncomparable is a provider on which == panics.
type uncomparable struct {
	embedded.TracerProvider
	tracers []trace.Tracer
}

func (p uncomparable) Tracer(string, ...trace.TracerOption) trace.Tracer { return p.tracers[0] }

func TestEnabled(t *testing.T) {
	if tracing.Enabled() {
		t.Fatalf("enabled by %T, before any provider was set", otel.GetTracerProvider())
	}
	unset := otel.GetTracerProvider()
	sdk := sdktrace.NewTracerProvider()
	for _, tc := range []struct {
		name     string
		provider trace.TracerProvider
		want     bool
	}{
		{"the SDK's", sdk, true},
		{"one that does nothing", noop.NewTracerProvider(), false},
		{"the SDK's again", sdk, true},
		{"a pointer to one that does nothing", &noop.TracerProvider{}, false},
		{"one that cannot be compared", uncomparable{tracers: []trace.Tracer{sdk.Tracer("")}}, true},
		{"another that cannot be compared", uncomparable{tracers: []trace.Tracer{sdk.Tracer("")}}, true},
		{"none any more", unset, false},
	} {
		setProvider(t, tc.provider)
		for range 2 { // the second answer is remembered
			if got := tracing.Enabled(); got != tc.want {
				t.Errorf("provider %s: Enabled is %v, want %v", tc.name, got, tc.want)
			}
		}
	}
}

// With no provider set up, tracing allocates nothing on the hot path.
func TestDisabledAllocatesNothing(t *testing.T) {
	for _, tc := range []struct {
		name     string
		provider trace.TracerProvider
	}{
		{"unset", nil},
		{"noop", noop.NewTracerProvider()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.provider != nil {
				setProvider(t, tc.provider)
			}
			ctx := context.Background()
			received, _ := traceparent(true)
			own := map[string][]string{"Nats-Msg-Id": {"1"}}
			message := tracing.Message{Topic: "orders", Stream: "ORDERS", Sequence: 7, Stored: time.Unix(1, 0)}
			allocs := testing.AllocsPerRun(1000, func() {
				sendCtx, send := tracing.StartSend(ctx, "orders", tracing.Send{Subject: "orders.created"})
				tracing.Inject(sendCtx, nil)
				tracing.Inject(sendCtx, own)
				tracing.EndSend(send, tracing.Stored{Stream: "ORDERS", Sequence: 7}, nil)

				processCtx, span := tracing.StartProcess(ctx, received, message)
				if span != nil || processCtx != ctx {
					t.Error("there is a span")
				}
				attemptCtx, end := tracing.StartAttempt(processCtx, "invoices", tracing.Attempt{Owed: 1}, nil)
				if end != nil || attemptCtx != ctx {
					t.Error("there is a span")
				}
				tracing.EndProcess(span, tracing.Ack, 1, nil)
			})
			if allocs != 0 {
				t.Errorf("%v allocations, want 0", allocs)
			}
		})
	}
}

func TestEnabledAllocatesNothing(t *testing.T) {
	record(t)
	if allocs := testing.AllocsPerRun(1000, func() { tracing.Enabled() }); allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}

func BenchmarkEnabled(b *testing.B) {
	b.Run("unset", func(b *testing.B) {
		for b.Loop() {
			tracing.Enabled()
		}
	})
	b.Run("set", func(b *testing.B) {
		record(b)
		for b.Loop() {
			tracing.Enabled()
		}
	})
}
