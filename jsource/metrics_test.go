package jsource_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/list"
	"github.com/levelstream/jsource/reconciler/nats"
)

// The provider is the process's: tests that set one do not run in parallel with any other.

// measures is what is measured from now on.
type measures struct {
	tb     testing.TB
	reader *sdkmetric.ManualReader
}

func measure(tb testing.TB) *measures {
	tb.Helper()
	m := &measures{tb, sdkmetric.NewManualReader()}
	before := otel.GetMeterProvider()
	tb.Cleanup(func() { otel.SetMeterProvider(before) })
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(m.reader)))
	return m
}

// collect is every series, by name and labels that tell it from the others of its name: its value or, of a
// histogram, its count.
func (m *measures) collect() map[string]float64 {
	m.tb.Helper()
	all := map[string]float64{}
	for _, metric := range m.metrics() {
		switch data := metric.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				all[labelled(metric.Name, p.Attributes)] += float64(p.Value)
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				all[labelled(metric.Name, p.Attributes)] += p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				all[labelled(metric.Name, p.Attributes)] += float64(p.Count)
			}
		default:
			m.tb.Fatalf("%s is a %T", metric.Name, data)
		}
	}
	delete(all, "")
	return all
}

func (m *measures) metrics() (all []metricdata.Metrics) {
	m.tb.Helper()
	var rm metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &rm); err != nil {
		m.tb.Fatal(err)
	}
	for _, scope := range rm.ScopeMetrics {
		all = append(all, scope.Metrics...)
	}
	return all
}

// labelled names a series; "" if it is one of another controller or durable, of an earlier test.
func labelled(name string, attrs attribute.Set) string {
	durable, ofSource := attrs.Value("messaging.consumer.group.name")
	if c, _ := attrs.Value("jsource.controller"); c.String() != keeper || ofSource && durable.String() != widgetDurable {
		return ""
	}
	for _, kv := range attrs.ToSlice() {
		switch kv.Key {
		case "jsource.controller", "jsource.topic", "messaging.consumer.group.name", "messaging.system", "messaging.operation.name":
		default:
			name += " " + kv.Value.String()
		}
	}
	return name
}

// §7: what is counted of a source and of its controller.
func TestMetrics(t *testing.T) {
	ms := measure(t)
	w := newWorld(t)
	w.publish("again")
	resync := list.New(func(context.Context) ([]string, error) { return []string{"missed"}, nil })
	m := w.join(watching(resync), workers(2), holding("held"), withSource(func(s *widgetSource) { s.UndecodableDelay(1) }),
		doing(func(ctx context.Context, req string) (reconciler.Result, error) {
			switch req {
			case "dead":
				return dying(ctx, req)
			case "missed":
				return reconciler.Result{Changed: true}, nil
			}
			return reconciler.Result{}, nil
		}))
	m.waitDone(t, "missed")
	w.publish("a", "dead", "held")
	w.raw(nats.Created, "{")
	w.left(1, 0)
	want := map[string]float64{
		"jsource.event_to_reconcile.duration":                   2,
		"messaging.client.consumed.messages":                    7,
		"jsource.messages.settled ack":                          2,
		"jsource.messages.settled term":                         2,
		"jsource.messages.settled given_back":                   2,
		"jsource.messages.settled forgotten":                    0,
		"jsource.copies absorbed":                               0,
		"jsource.copies repeated":                               0,
		"jsource.messages.unsettled":                            1,
		"jsource.messages.unsettled.limit":                      1000,
		"jsource.verdicts.unconfirmed":                          0,
		"jsource.recoveries":                                    0,
		"jsource.dead_letters attempts":                         0,
		"jsource.dead_letters deliveries":                       0,
		"jsource.redeliveries":                                  2,
		"jsource.dead_letters terminal":                         1,
		"jsource.dead_letters undecodable":                      1,
		"jsource.source.healthy":                                1,
		"jsource.requests source 1 (jsource shop.widgets.>)":    4,
		"jsource.requests source 2 (list source (every 10m0s))": 1,
		"jsource.requests source 3 (jsource_test.started)":      0,
		"jsource.requests.owed":                                 1,
		"jsource.attempts success":                              3,
		"jsource.attempts unfinished":                           0,
		"jsource.attempts failed":                               0,
		"jsource.attempts cut":                                  0,
		"jsource.attempts dead":                                 1,
		"jsource.queue.depth":                                   0,
		"jsource.queue.wait.duration":                           5,
		"jsource.resync.attempts":                               1,
		"jsource.resync.changes":                                1,
	}
	natstest.Eventually(t, "all of it is counted", natstest.Patience, func() error {
		got := ms.collect()
		if got["jsource.messages.unsettled.age"] <= 0 {
			return errors.New("the oldest unsettled message has no age")
		}
		if _, there := got["jsource.heartbeats"]; !there {
			return errors.New("heartbeats are not counted")
		}
		// What depends on time, and on when the server was last asked.
		for _, name := range []string{"jsource.messages.unsettled.age", "jsource.heartbeats", "jsource.messages.pending"} {
			delete(got, name)
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("it is\n%s", strings.Join(different(got, want), "\n"))
		}
		return nil
	})

	// What has ended has no state, and keeps what it counted, until another one goes on from zero.
	m.release("held")
	w.settled()
	m.stop()
	m.wait()
	got := ms.collect()
	if got["jsource.messages.settled ack"] != 3 || got["jsource.attempts success"] != 4 {
		t.Errorf("after the end: %v", got)
	}
	for _, state := range []string{"jsource.source.healthy", "jsource.messages.unsettled", "jsource.queue.depth", "jsource.messages.unsettled.age"} {
		if v, there := got[state]; there {
			t.Errorf("after the end %s is %v", state, v)
		}
	}
	w.join()
	if got = ms.collect(); got["jsource.messages.settled ack"] != 0 || got["jsource.source.healthy"] != 1 {
		t.Errorf("of another one: %v", got)
	}
}

func different(got, want map[string]float64) (lines []string) {
	for name := range got {
		if _, known := want[name]; !known || got[name] != want[name] {
			lines = append(lines, fmt.Sprintf("%s %v, want %v", name, got[name], want[name]))
		}
	}
	for name := range want {
		if _, there := got[name]; !there {
			lines = append(lines, name+" is missing")
		}
	}
	slices.Sort(lines)
	return lines
}

// §7, case 25: no label holds a key, a subject or a request, so 10,000 keys make no more series than one.
func TestKeysMakeNoSeriesOfOurs(t *testing.T) {
	const keys = 10_000
	ms := measure(t)
	w := newUnwatched(t)
	a := w.join(workers(4))
	w.publish("first")
	a.waitDone(t, "first")
	w.settled()
	before := ms.collect()
	flood(t, w.js, 0, keys)
	w.settled()
	natstest.Eventually(t, "every event is measured", natstest.Patience, func() error {
		if n := ms.collect()["jsource.event_to_reconcile.duration"]; n != keys+1 {
			return fmt.Errorf("%v are", n)
		}
		return nil
	})
	for name := range ms.collect() {
		if _, known := before[name]; !known {
			t.Errorf("a new series: %s", name)
		}
	}
}

// §7: the latency's exemplars lead to the traces of the deliveries.
func TestLatencyLeadsToTraces(t *testing.T) {
	ms := measure(t)
	traced := recordSpans(t)
	w := newWorld(t)
	m := w.join()
	w.publish("a")
	m.waitDone(t, "a")
	span := traced.wait("process shop.widgets", 1)[0].SpanContext
	id := span.SpanID()
	for _, metric := range ms.metrics() {
		data, ok := metric.Data.(metricdata.Histogram[float64])
		if !ok || metric.Name != "jsource.event_to_reconcile.duration" {
			continue
		}
		for _, p := range data.DataPoints {
			for _, e := range p.Exemplars {
				if slices.Equal(e.SpanID, id[:]) {
					return
				}
			}
		}
	}
	t.Errorf("no exemplar has the delivery's span %v", id)
}
