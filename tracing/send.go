package tracing

import (
	"context"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Send is what is known of a message before it is published.
type Send struct {
	Subject string
	ID      string // its Nats-Msg-Id, "" if it has none
	Size    int    // of its body, in bytes
	// Repeats are the headers of a message that this one repeats, whose trace gets a link; nil if it repeats none.
	Repeats map[string][]string
}

// StartSend starts the span of publishing one message to topic. Inject the context it returns into the
// message's headers, and end the span with [EndSend]. The span is never nil: it does nothing when there is
// nothing to record.
func StartSend(ctx context.Context, topic string, s Send) (context.Context, trace.Span) {
	t := tracer()
	if t == nil {
		return ctx, noop.Span{}
	}
	attrs := make(attributes, 0, 6)
	attrs.add(systemNATS)
	attrs.add(semconv.MessagingOperationTypeSend)
	attrs.add(semconv.MessagingOperationName("send"))
	attrs.add(semconv.MessagingMessageBodySize(s.Size))
	attrs.text(semconv.MessagingDestinationNameKey, s.Subject)
	attrs.text(semconv.MessagingMessageIDKey, s.ID)
	opts := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attrs...)}
	if repeated := trace.SpanContextFromContext(Extract(context.Background(), s.Repeats)); repeated.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: repeated}))
	}
	return t.Start(ctx, "send "+topic, opts...)
}

// Stored is a stream's answer to a message.
type Stored struct {
	Stream    string
	Sequence  uint64
	Duplicate bool // the stream had it already, at Sequence
}

// EndSend ends a span of [StartSend]: with the stream's answer or, if there was none, with err.
func EndSend(span trace.Span, s Stored, err error) {
	if span == nil {
		return
	}
	if !span.IsRecording() {
		span.End()
		return
	}
	if err == nil {
		attrs := make(attributes, 0, 3)
		attrs.text(streamKey, s.Stream)
		attrs.add(sequenceKey.Int64(int64(s.Sequence)))
		if s.Duplicate {
			attrs.add(duplicateKey.Bool(true))
		}
		span.SetAttributes(attrs...)
	}
	fail(span, err)
	span.End()
}
