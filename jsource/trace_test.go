package jsource_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// The provider is the process's: tests that set one do not run in parallel with any other.

// spans are those that have ended.
type spans struct {
	tb       testing.TB
	exporter *tracetest.InMemoryExporter
}

// recordSpans sets a provider that keeps every span that ends, until the test does.
func recordSpans(tb testing.TB, opts ...sdktrace.TracerProviderOption) *spans {
	tb.Helper()
	s := &spans{tb: tb, exporter: tracetest.NewInMemoryExporter()}
	before := otel.GetTracerProvider()
	tb.Cleanup(func() { otel.SetTracerProvider(before) })
	otel.SetTracerProvider(sdktrace.NewTracerProvider(append(opts, sdktrace.WithSyncer(s.exporter))...))
	return s
}

func (s *spans) named(name string) []tracetest.SpanStub {
	var found []tracetest.SpanStub
	for _, span := range s.exporter.GetSpans() {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

// wait waits until n spans of that name have ended, and returns them in the order in which they did.
func (s *spans) wait(name string, n int) []tracetest.SpanStub {
	s.tb.Helper()
	var found []tracetest.SpanStub
	natstest.Eventually(s.tb, fmt.Sprintf("%d spans %q", n, name), natstest.Patience, func() error {
		if found = s.named(name); len(found) != n {
			return fmt.Errorf("%d of them", len(found))
		}
		return nil
	})
	return found
}

// childOf checks that s has this parent, in its trace.
func childOf(tb testing.TB, s, parent tracetest.SpanStub) {
	tb.Helper()
	if s.Parent.SpanID() != parent.SpanContext.SpanID() || s.SpanContext.TraceID() != parent.SpanContext.TraceID() {
		tb.Errorf("%q is no child of %q", s.Name, parent.Name)
	}
}

func linkedTo(from, to tracetest.SpanStub) bool {
	for _, l := range from.Links {
		if l.SpanContext.SpanID() == to.SpanContext.SpanID() && l.SpanContext.TraceID() == to.SpanContext.TraceID() {
			return true
		}
	}
	return false
}

func expectAttributes(tb testing.TB, s tracetest.SpanStub, want ...attribute.KeyValue) {
	tb.Helper()
	got := attribute.NewSet(s.Attributes...)
	for _, w := range want {
		if v, ok := got.Value(w.Key); !ok || v != w.Value {
			tb.Errorf("%q: %s is %q, want %q", s.Name, w.Key, v.String(), w.Value.String())
		}
	}
}

// §7: from the publisher's span the trace leads over the message to its reconciles, and back; what the user's
// functions start is part of it.
func TestTraceFromPublisherToReconcileAndBack(t *testing.T) {
	s := recordSpans(t)
	tracer := otel.Tracer("user")
	inside := func(ctx context.Context, name string) {
		_, span := tracer.Start(ctx, name)
		span.End()
	}
	w := newWorld(t)
	w.join(mappedBy(w.srv.Conn(), func(ctx context.Context, e nats.Event[string, widget]) []string {
		inside(ctx, "look up")
		return split(ctx, e)
	}, nil), doing(func(ctx context.Context, req string) (reconciler.Result, error) {
		inside(ctx, "write "+req)
		return reconciler.Result{}, nil
	}))
	ctx, request := tracer.Start(t.Context(), "request")
	r, err := jsource.PublishCreated(ctx, w.pub, widgets, "a+b", widget{}, jsource.MsgID("change-1"))
	if err != nil {
		t.Fatal(err)
	}
	request.End()
	w.waitSaid(r.Sequence, "ack of delivery 1")

	process := s.wait("process shop.widgets", 1)[0]
	send, attempts := s.wait("send shop.widgets", 1)[0], s.wait("reconcile keeper", 2)
	childOf(t, send, s.wait("request", 1)[0])
	childOf(t, process, send)
	childOf(t, s.wait("look up", 1)[0], process)
	for i, name := range []string{"a", "b"} {
		childOf(t, attempts[i], process)
		childOf(t, s.wait("write "+name, 1)[0], attempts[i])
		if !linkedTo(process, attempts[i]) || !linkedTo(attempts[i], process) {
			t.Errorf("%q and attempt %d are not linked both ways", process.Name, i+1)
		}
		expectAttributes(t, attempts[i], attribute.Int("jsource.owed", 1),
			attribute.String("jsource.cause", "message"), attribute.String("jsource.outcome", "success"), attribute.String("jsource.controller", keeper))
	}
	if send.SpanKind != trace.SpanKindProducer || process.SpanKind != trace.SpanKindConsumer ||
		attempts[0].SpanKind != trace.SpanKindInternal {
		t.Errorf("the kinds are %v, %v and %v", send.SpanKind, process.SpanKind, attempts[0].SpanKind)
	}
	expectAttributes(t, send, attribute.String("messaging.message.id", "change-1"),
		attribute.String("messaging.destination.name", "shop.widgets.created"),
		attribute.Int("jsource.stream.sequence", 1))
	msg, err := w.mustStream(widgetStream).GetMsg(t.Context(), r.Sequence)
	if err != nil {
		t.Fatal(err)
	}
	expectAttributes(t, process,
		attribute.String("jsource.stored", msg.Time.UTC().Format(time.RFC3339Nano)),
		attribute.String("messaging.system", "nats"), attribute.String("messaging.message.id", "change-1"),
		attribute.String("messaging.destination.name", "shop.widgets.created"),
		attribute.String("messaging.consumer.group.name", widgetDurable),
		attribute.String("jsource.stream", widgetStream), attribute.Int("jsource.stream.sequence", 1),
		attribute.Int("jsource.delivery.count", 1), attribute.String("jsource.settlement", "ack"),
		attribute.Int("jsource.owed", 2), attribute.String("jsource.controller", keeper))
	// It lasts from the receipt to the confirmed settlement.
	if last := attempts[1]; process.EndTime.Before(last.EndTime) || process.StartTime.After(attempts[0].StartTime) {
		t.Errorf("%q does not enclose its attempts", process.Name)
	}
}

// §7: a redelivery is a new span with its count, in the same trace.
func TestRedeliveryIsASpanOfItsOwn(t *testing.T) {
	s := recordSpans(t)
	w := newWorld(t)
	fail := true
	w.join(tryMappedBy(w.srv.Conn(), func(_ context.Context, e nats.Event[string, widget]) ([]string, error) {
		if fail {
			fail = false
			return nil, errTest
		}
		return []string{e.Key}, nil
	}, nil))
	w.publish("a")
	w.settled()
	deliveries := s.wait("process shop.widgets", 2)
	send := s.wait("send shop.widgets", 1)[0]
	attempt := s.wait("reconcile keeper", 1)[0]
	for i, d := range deliveries {
		childOf(t, d, send)
		expectAttributes(t, d, attribute.Int("jsource.delivery.count", i+1))
	}
	first, second := deliveries[0], deliveries[1]
	expectAttributes(t, first, attribute.String("jsource.settlement", "given_back"))
	if first.Status.Code != codes.Error || !strings.Contains(first.Status.Description, "out of stock") ||
		len(first.Links) != 0 {
		t.Errorf("the first delivery's status is %+v, with %d links", first.Status, len(first.Links))
	}
	expectAttributes(t, second, attribute.String("jsource.settlement", "ack"))
	childOf(t, attempt, second)
	if !linkedTo(second, attempt) {
		t.Error("the second delivery is not linked with its attempt")
	}
}

// §7: a dead letter's delivery ends with a term and the error.
func TestTraceOfADeadLetter(t *testing.T) {
	s := recordSpans(t)
	w := newWorld(t)
	w.join(doing(dying))
	w.publish("a")
	w.settled()
	process := s.wait("process shop.widgets", 1)[0]
	expectAttributes(t, process, attribute.String("jsource.settlement", "term"))
	if process.Status.Code != codes.Error || !strings.Contains(process.Status.Description, "out of stock") {
		t.Errorf("its status is %+v", process.Status)
	}
	send := s.wait("send shop.widgets", 1)[0]
	want := send.SpanContext.TraceID().String()
	if got := w.waitLetters(1)[0].Header.Get("traceparent"); !strings.Contains(got, want) {
		t.Errorf("the letter carries the trace %q, want the publisher's %s", got, want)
	}
}

// §7, case 28: of 300 messages on one key, each reaches the attempt that reconciled it, and the attempt says
// how many there are, though it cannot be linked with all.
func TestTraceOfManyMessagesOnOneKey(t *testing.T) {
	s := recordSpans(t)
	const many = 300
	w := newWorld(t)
	script := make(script)
	defer close(script)
	m := w.join(doing(script.reconcile))
	w.publish("a")
	m.waitAttempts(t, "a", 1)
	keys := make([]string, many)
	for i := range keys {
		keys[i] = "a"
	}
	w.publish(keys...)
	m.owed("a", many+1)
	script.end(t, success)
	script.end(t, success)
	w.settled()
	deliveries := s.wait("process shop.widgets", many+1)
	attempts := s.wait("reconcile keeper", 2)
	expectAttributes(t, attempts[1], attribute.Int("jsource.owed", many),
		attribute.Int("jsource.links.dropped", many-128))
	if len(attempts[1].Links) != 128 {
		t.Errorf("%d links, want as many as are kept", len(attempts[1].Links))
	}
	sent := map[trace.SpanID]tracetest.SpanStub{}
	for _, send := range s.wait("send shop.widgets", many+1) {
		sent[send.SpanContext.SpanID()] = send
	}
	reached := [2]int{}
	for _, d := range deliveries {
		childOf(t, d, sent[d.Parent.SpanID()])
		for i, a := range attempts {
			if linkedTo(d, a) {
				reached[i]++
			}
		}
	}
	if reached != [2]int{1, many} {
		t.Errorf("%v deliveries lead to the attempts, want 1 and %d", reached, many)
	}
}

// §7: what the publisher does not sample has no spans, and what is published onwards stays in its trace.
func TestUnsampledHasNoSpans(t *testing.T) {
	s := recordSpans(t, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	w := newWorld(t)
	inside := make(chan trace.SpanContext, 2)
	w.join(mappedBy(w.srv.Conn(), func(ctx context.Context, e nats.Event[string, widget]) []string {
		inside <- trace.SpanContextFromContext(ctx)
		return []string{e.Key}
	}, nil), doing(func(ctx context.Context, _ string) (reconciler.Result, error) {
		inside <- trace.SpanContextFromContext(ctx)
		return reconciler.Result{}, nil
	}))
	parent := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true,
	})
	ctx := trace.ContextWithSpanContext(t.Context(), parent)
	if _, err := jsource.PublishCreated(ctx, w.pub, widgets, "a", widget{}); err != nil {
		t.Fatal(err)
	}
	w.settled()
	for range 2 {
		if sc := <-inside; sc.TraceID() != parent.TraceID() || sc.IsSampled() {
			t.Errorf("the user's function is in the trace %v", sc)
		}
	}
	if got := s.exporter.GetSpans(); len(got) != 0 {
		t.Errorf("%d spans, the first is %q", len(got), got[0].Name)
	}
}
