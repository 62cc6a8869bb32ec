package jsource_test

import (
	"maps"
	"sync"
	"testing"

	"k8s.io/client-go/util/workqueue"
)

// series counts what is told to client-go's metrics. It can be set once in a process.
var series = &countedSeries{values: map[string]float64{}}

func init() { workqueue.SetProvider(series) }

// Case 25: metrics are labelled with the controller's name and nothing else: after 10,000 keys there are as
// many series as after one.
func TestKeysMakeNoSeries(t *testing.T) {
	const keys = 10_000
	w := newUnwatched(t)
	a := w.join(workers(4))
	w.publish("first")
	a.waitDone(t, "first")
	before := series.all()
	if before["adds of "+keeper] == 0 {
		t.Fatalf("nothing is counted: %v", before)
	}
	flood(t, w.js, 0, keys)
	w.settled()
	after := series.all()
	if n := after["adds of "+keeper] - before["adds of "+keeper]; n < keys {
		t.Errorf("%v requests were counted, want %d", n, keys)
	}
	for name := range after {
		if _, known := before[name]; !known {
			t.Errorf("a new series: %s", name)
		}
	}
}

// countedSeries is a provider of client-go's metrics that keeps each series' sum.
type countedSeries struct {
	mu     sync.Mutex
	values map[string]float64
}

func (s *countedSeries) all() map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.values)
}

func (s *countedSeries) metric(kind, name string) oneSeries {
	m := oneSeries{s, kind + " of " + name}
	m.add(0)
	return m
}

func (s *countedSeries) NewDepthMetric(name string) workqueue.GaugeMetric {
	return s.metric("depth", name)
}

func (s *countedSeries) NewAddsMetric(name string) workqueue.CounterMetric {
	return s.metric("adds", name)
}

func (s *countedSeries) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return s.metric("latency", name)
}

func (s *countedSeries) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return s.metric("work duration", name)
}

func (s *countedSeries) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return s.metric("unfinished work", name)
}

func (s *countedSeries) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return s.metric("longest running", name)
}

func (s *countedSeries) NewRetriesMetric(name string) workqueue.CounterMetric {
	return s.metric("retries", name)
}

// oneSeries is one series of any kind.
type oneSeries struct {
	of   *countedSeries
	name string
}

func (o oneSeries) add(v float64) {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	o.of.values[o.name] += v
}

func (o oneSeries) Inc()              { o.add(1) }
func (o oneSeries) Dec()              { o.add(-1) }
func (o oneSeries) Set(float64)       {}
func (o oneSeries) Observe(v float64) { o.add(v) }
