package tracing

import "go.opentelemetry.io/otel/trace"

// Covered is a delivery that an attempt can cover. A [queue.Message] that implements it is linked with the
// attempts on what it owes.
//
// Span is the delivery's span. For a delivery without one it is nil or, so that what its attempts publish
// stays in the publisher's trace, trace.SpanFromContext of the context that [StartProcess] returned. It may
// be called while a lock is held: it must return at once.
//
// [queue.Message]: https://pkg.go.dev/github.com/levelstream/jsource/queue#Message
type Covered interface{ Span() trace.Span }

// Sampled reports whether s is a span that others can be linked with. s may be nil.
func Sampled(s trace.Span) bool { return s != nil && s.SpanContext().IsSampled() }
