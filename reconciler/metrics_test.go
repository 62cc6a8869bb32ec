package reconciler_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/reconciler"
)

// metrics is the provider of every queue in this test binary.
var metrics = &provider{queues: map[string]map[string]float64{}}

// provider is a client-go metrics provider that remembers: queue → metric → value (or observations).
type provider struct {
	mu     sync.Mutex
	queues map[string]map[string]float64
}

type metric struct {
	provider     *provider
	queue, which string
}

func (p *provider) metric(queue, which string) metric {
	m := metric{p, queue, which}
	m.add(0)
	return m
}

func (p *provider) of(queue, which string) (value float64, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	value, known = p.queues[queue][which]
	return value, known
}

// forget makes a queue's metrics start over, for -count.
func (p *provider) forget(queue string) {
	p.mu.Lock()
	delete(p.queues, queue)
	p.mu.Unlock()
}

func (m metric) add(by float64) {
	m.provider.mu.Lock()
	defer m.provider.mu.Unlock()
	if m.provider.queues[m.queue] == nil {
		m.provider.queues[m.queue] = map[string]float64{}
	}
	m.provider.queues[m.queue][m.which] += by
}

func (m metric) Inc()            { m.add(1) }
func (m metric) Dec()            { m.add(-1) }
func (m metric) Observe(float64) { m.add(1) }
func (m metric) Set(float64)     {}

func (p *provider) NewDepthMetric(name string) workqueue.GaugeMetric {
	return p.metric(name, "depth")
}

func (p *provider) NewAddsMetric(name string) workqueue.CounterMetric {
	return p.metric(name, "adds")
}

func (p *provider) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return p.metric(name, "waits")
}

func (p *provider) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return p.metric(name, "works")
}

func (p *provider) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return p.metric(name, "unfinished")
}

func (p *provider) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return p.metric(name, "longest")
}

func (p *provider) NewRetriesMetric(name string) workqueue.CounterMetric {
	return p.metric(name, "retries")
}

// client-go's metrics provider, Prometheus in most processes, sees the queue under the controller's name.
func TestMetrics_WorkqueueReportsUnderTheControllersName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "controller with metrics"
		metrics.forget(name)
		working := make(chan struct{})
		failed := false
		c := build(t, reconciler.New[string](name).Watch(events("a", "b", "c")),
			func(_ context.Context, req string) (result, error) {
				<-working
				if req == "a" && !failed {
					failed = true
					return result{}, errBroken
				}
				return result{}, nil
			})
		stop := start(t, c)
		pass(time.Second)
		check := func(which string, want float64) {
			t.Helper()
			got, known := metrics.of(name, which)
			equal(t, which+" is known", known, true)
			equal(t, which, got, want)
		}
		check("depth", 2)
		check("adds", 3)
		check("unfinished", 0)
		check("longest", 0)
		equal(t, "queued", c.Stats().Queued, 2)

		close(working)
		pass(time.Second)
		check("depth", 0)
		check("adds", 4)
		check("retries", 1)
		check("waits", 4)
		check("works", 4)
		stopped(t, stop)
	})
}
