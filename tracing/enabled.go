package tracing

import (
	"reflect"

	"go.opentelemetry.io/otel"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scope is the name under which the spans appear, the module's.
const scope = "github.com/levelstream/jsource"

// Packages whose providers make no spans. The global provider that stands in until one is set is known
// only by where it is declared; a test notices when that changes.
const (
	unsetPackage = "go.opentelemetry.io/otel/internal/global"
	tracePackage = "go.opentelemetry.io/otel/trace" // the deprecated noop provider
)

var tracers memo[trace.TracerProvider, trace.Tracer]

// Enabled reports whether a tracer provider was set with otel.SetTracerProvider, other than one that does
// nothing. It costs some nanoseconds and no memory, and notices a provider that is set later.
func Enabled() bool { return tracer() != nil }

// tracer is the tracer of the provider that is set now, and nil when none is.
func tracer() trace.Tracer { return tracers.get(otel.GetTracerProvider(), newTracer) }

func newTracer(p trace.TracerProvider) trace.Tracer {
	if !makesSpans(p) {
		return nil
	}
	return p.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
}

func makesSpans(p trace.TracerProvider) bool {
	switch p.(type) {
	case nil, noop.TracerProvider, *noop.TracerProvider:
		return false
	}
	t := reflect.TypeOf(p)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() {
	case unsetPackage:
		return false
	case tracePackage:
		return t.Name() != "noopTracerProvider"
	default:
		return true
	}
}
