package tracing

import (
	"context"
	"strconv"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// messageIDHeader is where JetStream keeps the id by which it recognizes duplicates.
const messageIDHeader = "Nats-Msg-Id"

// How a delivery ended.
const (
	// Ack: every request was reconciled, and the server has confirmed the ack.
	Ack = "ack"
	// Term: its dead letter is stored, and the server has confirmed the term.
	Term = "term"
	// GivenBack: it will be delivered again, here or elsewhere.
	GivenBack = "given_back"
	// Forgotten: its stream, or whoever held it, is gone.
	Forgotten = "forgotten"
	// Unconfirmed: it has a verdict that the server never answered; left to redelivery.
	Unconfirmed = "unconfirmed"
)

// Message is what is known of a delivery when it is received. Its message id, if the publisher gave it
// one, is found in its headers.
type Message struct {
	Topic      string // as in the span's name
	Subject    string
	Stream     string
	Sequence   uint64    // in Stream
	Stored     time.Time // when the stream stored it, by the server's clock; zero if that is not known
	Delivery   uint64    // delivery count, from 1
	Size       int       // of the body, in bytes
	Durable    string    // the durable consumer it was delivered to
	Controller string    // the controller that works on it
}

// StartProcess starts the span of one delivery, as a child of the publisher's, which header names; without
// one it is a root, whatever span ctx carries: that one belongs to whoever started the source. End it with
// [EndProcess].
//
// The span is nil when there is nothing to record: without a tracer provider, when the publisher's trace is
// not sampled, or when the sampler here does not want it. In the latter two cases the context carries the
// trace all the same, for what is published onwards.
func StartProcess(ctx context.Context, header map[string][]string, m Message) (context.Context, trace.Span) {
	t := tracer()
	if t == nil {
		return ctx, nil
	}
	if trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	}
	ctx = Extract(ctx, header)
	if publisher := trace.SpanContextFromContext(ctx); publisher.IsValid() && !publisher.IsSampled() {
		return ctx, nil
	}
	ctx, span := t.Start(ctx, "process "+m.Topic, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(m.attributes(header)...))
	if !span.IsRecording() {
		return ctx, nil
	}
	return ctx, span
}

func (m *Message) attributes(header carrier) attributes {
	id := header.Get(messageIDHeader)
	if id == "" {
		id = m.Stream + ":" + strconv.FormatUint(m.Sequence, 10)
	}
	attrs := make(attributes, 0, 12)
	attrs.add(systemNATS)
	attrs.add(semconv.MessagingOperationTypeProcess)
	attrs.add(semconv.MessagingOperationName("process"))
	attrs.add(semconv.MessagingMessageID(id))
	attrs.add(semconv.MessagingMessageBodySize(m.Size))
	attrs.text(semconv.MessagingDestinationNameKey, m.Subject)
	attrs.text(semconv.MessagingConsumerGroupNameKey, m.Durable)
	attrs.text(streamKey, m.Stream)
	attrs.add(sequenceKey.Int64(int64(m.Sequence)))
	if !m.Stored.IsZero() {
		attrs.add(storedKey.String(m.Stored.UTC().Format(time.RFC3339Nano)))
	}
	attrs.add(deliveryCountKey.Int64(int64(m.Delivery)))
	attrs.text(controllerKey, m.Controller)
	return attrs
}

// EndProcess ends a span of [StartProcess]; a nil span is fine, and so is one that records nothing. settlement is one of [Ack], [Term],
// [GivenBack], [Forgotten] and [Unconfirmed]; owed is the number of requests the message was mapped to; err
// is why it did not end well.
func EndProcess(span trace.Span, settlement string, owed int, err error) {
	if span == nil || !span.IsRecording() {
		return
	}
	span.SetAttributes(settlementKey.String(settlement), owedKey.Int(owed))
	fail(span, err)
	span.End()
}
