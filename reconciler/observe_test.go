package reconciler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/tracing"
)

// observedMessage is a message with a delivery's span.
type observedMessage struct {
	queue.Entry[string]
	span    trace.Span
	settled bool
}

func (m *observedMessage) Settled(bool)                     { m.settled = true }
func (m *observedMessage) Superseded(queue.Message[string]) {}
func (m *observedMessage) Died(string, queue.Death)         {}
func (m *observedMessage) Span() trace.Span                 { return m.span }

// plainMessage is a message of a source that knows nothing of spans.
type plainMessage struct{ queue.Entry[string] }

func (m *plainMessage) Settled(bool)                     {}
func (m *plainMessage) Superseded(queue.Message[string]) {}
func (m *plainMessage) Died(string, queue.Death)         {}

// recordSpans sets a provider that keeps every span that ends, until the test does.
func recordSpans(t *testing.T) *tracetest.InMemoryExporter {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	before := otel.GetTracerProvider()
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)))
	return exporter
}

func spanNamed(t *testing.T, exporter *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	for _, s := range exporter.GetSpans() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no span %q among %d", name, len(exporter.GetSpans()))
	return tracetest.SpanStub{}
}

func wantSpanAttributes(t *testing.T, s tracetest.SpanStub, want ...attribute.KeyValue) {
	t.Helper()
	got := attribute.NewSet(s.Attributes...)
	for _, w := range want {
		if v, ok := got.Value(w.Key); !ok || v != w.Value {
			t.Errorf("%s is %q, want %q", w.Key, v.String(), w.Value.String())
		}
	}
}

// registerObserved registers messages on topics of these names; one without a name is not sampled.
func registerObserved(
	t *testing.T, tracker *queue.Tracker[string], req string, topics ...string,
) []*observedMessage {
	t.Helper()
	group := tracker.NewGroup(queue.GroupOptions{})
	messages := make([]*observedMessage, len(topics))
	for i, topic := range topics {
		m := &observedMessage{}
		if topic != "" {
			_, m.span = tracing.StartProcess(context.Background(), nil, tracing.Message{Topic: topic})
		}
		if !group.Register(&m.Entry, m, []string{req}) {
			t.Fatal("not registered")
		}
		messages[i] = m
	}
	return messages
}

func TestObserveSpansAnAttempt(t *testing.T) {
	spans := recordSpans(t)
	tracker := queue.NewTracker[string]()
	tracker.SetObserver(reconciler.Observe[string]("invoices"))
	registerObserved(t, tracker, "another request", "unrelated")
	messages := registerObserved(t, tracker, "a", "", "old", "", "new")

	fail := errors.New("database is down")
	attempt := queue.Wrap(tracker, func(ctx context.Context, _ string) (int, error) {
		if !trace.SpanFromContext(ctx).IsRecording() {
			t.Error("the reconciler's context carries no span")
		}
		return 0, fail
	})
	if _, err := attempt(context.Background(), "a"); !errors.Is(err, fail) {
		t.Fatal(err)
	}
	failed := spanNamed(t, spans, "reconcile invoices")
	if failed.Status.Code != codes.Error || len(failed.Events) != 1 {
		t.Errorf("status %v, events %v", failed.Status, failed.Events)
	}
	wantSpanAttributes(t, failed,
		attribute.String("jsource.outcome", "failed"),
		attribute.Int("jsource.attempt", 1),
	)

	spans.Reset()
	fail = nil
	if _, err := attempt(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	s := spanNamed(t, spans, "reconcile invoices")
	if !s.Parent.Equal(messages[1].span.SpanContext()) {
		t.Errorf("the parent is %v, want the oldest sampled delivery, %v", s.Parent, messages[1].span.SpanContext())
	}
	if len(s.Links) != 2 {
		t.Errorf("%d links, want 2", len(s.Links))
	}
	wantSpanAttributes(t, s,
		attribute.String("jsource.controller", "invoices"),
		attribute.String("jsource.outcome", "success"),
		attribute.Int("jsource.attempt", 2),
		attribute.Int("jsource.owed", 4),
	)
	for _, m := range messages {
		if !m.settled {
			t.Error("a message is not settled")
		}
		tracing.EndProcess(m.span, tracing.Ack, 1, nil)
	}
	for _, topic := range []string{"old", "new"} {
		d := spanNamed(t, spans, "process "+topic)
		if len(d.Links) != 2 || !d.Links[0].SpanContext.Equal(failed.SpanContext) ||
			!d.Links[1].SpanContext.Equal(s.SpanContext) {
			t.Errorf("delivery %s has links %v, want those to both attempts", topic, d.Links)
		}
	}
}

func TestObserveUnsampled(t *testing.T) {
	spans := recordSpans(t)
	tracker := queue.NewTracker[string]()
	tracker.SetObserver(reconciler.Observe[string]("invoices"))
	registerObserved(t, tracker, "a", "", "")
	attempt := queue.Wrap(tracker, func(context.Context, string) (int, error) { return 0, nil })
	if _, err := attempt(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	if n := len(spans.GetSpans()); n != 0 {
		t.Errorf("%d spans, want none: no message of the attempt is sampled", n)
	}
}

func TestObserveMessagesWithoutSpans(t *testing.T) {
	spans := recordSpans(t)
	tracker := queue.NewTracker[string]()
	tracker.SetObserver(reconciler.Observe[string]("invoices"))
	m := &plainMessage{}
	tracker.NewGroup(queue.GroupOptions{}).Register(&m.Entry, m, []string{"a"})
	attempt := queue.Wrap(tracker, func(context.Context, string) (int, error) { return 0, nil })
	if _, err := attempt(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	s := spanNamed(t, spans, "reconcile invoices")
	if s.Parent.IsValid() {
		t.Errorf("the parent is %v, want a root", s.Parent)
	}
	wantSpanAttributes(t, s, attribute.Int("jsource.owed", 1))
}

func TestObserveOutcomeWithoutError(t *testing.T) {
	spans := recordSpans(t)
	tracker := queue.NewTracker[string]()
	tracker.SetObserver(reconciler.Observe[string]("invoices"))
	policy := func(int, error) queue.Outcome { return queue.Failed }
	attempt := queue.WrapPolicy(tracker, policy, func(context.Context, string) (int, error) { return 0, nil })
	if _, err := attempt(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	if s := spanNamed(t, spans, "reconcile invoices"); s.Status.Code != codes.Error {
		t.Errorf("status %v, want an error", s.Status)
	}
}

func TestObservePanic(t *testing.T) {
	spans := recordSpans(t)
	tracker := queue.NewTracker[string]()
	tracker.SetObserver(reconciler.Observe[string]("invoices"))
	attempt := queue.Wrap(tracker, func(context.Context, string) (int, error) { panic("boom") })
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v", p)
			}
		}()
		_, _ = attempt(context.Background(), "a")
	}()
	if s := spanNamed(t, spans, "reconcile invoices"); s.Status.Description != "panic: boom" {
		t.Errorf("status %v", s.Status)
	}
}

func TestObserveDisabledAllocatesNothing(t *testing.T) {
	tracker := queue.NewTracker[string]()
	registerObserved(t, tracker, "a", "", "")
	observe := reconciler.Observe[string]("invoices")
	ctx, a := context.Background(), tracker.Begin("a")
	allocs := testing.AllocsPerRun(1000, func() {
		if got, end := observe(ctx, &a); got != ctx || end != nil {
			t.Error("there is a span")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}

// pushOnce is a source that pushes one request, as a resync or as an event.
type pushOnce struct{ resync bool }

func (s pushOnce) Start(ctx context.Context, out chan<- string) error {
	if h, ok := reconciler.FromContext(ctx); ok && s.resync {
		h.MarkResync()
	}
	select {
	case out <- "a":
	case <-ctx.Done():
	}
	return nil
}

func TestControllerSpansNameTheCause(t *testing.T) {
	for _, tc := range []struct {
		source pushOnce
		want   string
	}{
		{pushOnce{resync: true}, "resync"},
		{pushOnce{}, "event"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			spans := recordSpans(t)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			c, err := reconciler.New[string]("invoices").Watch(tc.source).Timeout(time.Second).
				Func(func(ctx context.Context, _ string) (reconciler.Result, error) {
					if !trace.SpanFromContext(ctx).IsRecording() {
						t.Error("the reconciler's context carries no span")
					}
					cancel()
					return reconciler.Result{}, nil
				})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(ctx); err != nil {
				t.Fatal(err)
			}
			s := spanNamed(t, spans, "reconcile invoices")
			if s.Parent.IsValid() {
				t.Errorf("the parent is %v, want a root", s.Parent)
			}
			wantSpanAttributes(t, s, attribute.String("jsource.cause", tc.want), attribute.Int("jsource.owed", 0))
		})
	}
}
