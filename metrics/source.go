package metrics

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// reasons for dead letters. All are counted from the start: an increase from nothing at all is none to Prometheus.
var reasons = [...]string{"undecodable", "terminal", "attempts", "deliveries"}

// SourceLabels say which source it is.
type SourceLabels struct{ Controller, Topic, Durable string }

// SourceReading is what a source has counted, and how it is doing.
type SourceReading struct {
	Received, Redelivered               uint64
	Acked, Termed, GivenBack, Forgotten uint64
	Absorbed, Repeated                  uint64
	Heartbeats, Unconfirmed, Recoveries uint64
	Letters                             map[string]uint64 // by reason
	Held, Limit                         int
	Pending                             uint64
	Oldest                              time.Time // when the oldest message held was stored; zero: none is
	Healthy                             bool
}

// Source reports on one source.
type Source struct {
	reporter *reporter[SourceReading]
	latency  metric.Float64Histogram
	labels   []metric.RecordOption
}

// NewSource reports on a source from now on; read is called whenever somebody collects. Call End when the source
// has stopped.
func NewSource(l SourceLabels, read func() SourceReading) *Source {
	attrs := []attribute.KeyValue{
		attribute.String("jsource.controller", l.Controller),
		attribute.String("jsource.topic", l.Topic),
		semconv.MessagingConsumerGroupName(l.Durable),
	}
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(more, attrs...)...))
	}
	var (
		plain    = with()
		nats     = with(semconv.MessagingSystemKey.String("nats"), semconv.MessagingOperationName("receive"))
		settled  = attribute.Key("jsource.settlement")
		acked    = with(settled.String("ack"))
		termed   = with(settled.String("term"))
		given    = with(settled.String("given_back"))
		forgot   = with(settled.String("forgotten"))
		copied   = attribute.Key("jsource.copy")
		absorbed = with(copied.String("absorbed"))
		repeated = with(copied.String("repeated"))

		m           = newMaker()
		received    = m.counter("messaging.client.consumed.messages", "{message}", "Deliveries that arrived.")
		redelivered = m.counter("jsource.redeliveries", "{message}", "Deliveries that were not their message's first, anywhere.")
		settlements = m.counter("jsource.messages.settled", "{message}", "Messages settled or given back, by how.")
		copies      = m.counter("jsource.copies", "{message}", "Copies of messages held or decided, by what became of them.")
		unsettled   = m.level("jsource.messages.unsettled", "{message}", "Messages that this process holds.")
		limit       = m.level("jsource.messages.unsettled.limit", "{message}", "Messages that may be unsettled, over all replicas (MaxAckPending).")
		pending     = m.level("jsource.messages.pending", "{message}", "Messages not handed out yet, when the server was last asked.")
		heartbeats  = m.counter("jsource.heartbeats", "{heartbeat}", "Heartbeats sent.")
		unconfirmed = m.counter("jsource.verdicts.unconfirmed", "{message}", "Verdicts that the server did not confirm within the bound.")
		recoveries  = m.counter("jsource.recoveries", "{recovery}", "Durables and streams made anew.")
		letters     = m.counter("jsource.dead_letters", "{letter}", "Dead letters stored, by reason.")
		healthy     = m.level("jsource.source.healthy", "", "1 while the source consumes and is worked on, else 0.")
		age         = check(m.meter.Float64ObservableGauge("jsource.messages.unsettled.age", metric.WithUnit("s"),
			metric.WithDescription("Since when the oldest message that this process holds is stored.")))
	)
	died := make([]metric.MeasurementOption, len(reasons))
	for i, reason := range reasons {
		died[i] = with(attribute.String("jsource.reason", reason))
	}
	s := &Source{
		latency: m.duration("jsource.event_to_reconcile.duration",
			"From an event's being stored to its last owed request's being reconciled."),
		labels: []metric.RecordOption{plain},
	}
	s.reporter = report(m, l, read, func(o metric.Observer, r SourceReading, live bool) {
		count := func(i metric.Int64Observable, n uint64, with metric.MeasurementOption) {
			o.ObserveInt64(i, int64(n), with)
		}
		count(received, r.Received, nats)
		count(redelivered, r.Redelivered, plain)
		count(settlements, r.Acked, acked)
		count(settlements, r.Termed, termed)
		count(settlements, r.GivenBack, given)
		count(settlements, r.Forgotten, forgot)
		count(copies, r.Absorbed, absorbed)
		count(copies, r.Repeated, repeated)
		count(heartbeats, r.Heartbeats, plain)
		count(unconfirmed, r.Unconfirmed, plain)
		count(recoveries, r.Recoveries, plain)
		for i, reason := range reasons {
			count(letters, r.Letters[reason], died[i])
		}
		if !live {
			return
		}
		o.ObserveInt64(unsettled, int64(r.Held), plain)
		o.ObserveInt64(limit, int64(r.Limit), plain)
		count(pending, r.Pending, plain)
		old, well := 0.0, int64(0)
		if !r.Oldest.IsZero() {
			old = max(0, time.Since(r.Oldest).Seconds())
		}
		if r.Healthy {
			well = 1
		}
		o.ObserveFloat64(age, old, plain)
		o.ObserveInt64(healthy, well, plain)
	}, received, redelivered, settlements, copies, unsettled, limit, pending, heartbeats, unconfirmed, recoveries, letters, healthy, age)
	return s
}

// Reconciled records that an event was reconciled, d after it had been stored. span is that of its delivery, nil if
// it has none.
func (s *Source) Reconciled(span trace.Span, d time.Duration) {
	ctx := context.Background()
	if span != nil {
		ctx = trace.ContextWithSpan(ctx, span)
	}
	s.latency.Record(ctx, d.Seconds(), s.labels...)
}

// End says that the source has stopped: what it counted stays as it is.
func (s *Source) End() { s.reporter.end() }
