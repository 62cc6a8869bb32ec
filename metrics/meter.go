package metrics

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// scope is the name under which the instruments appear, the module's.
const scope = "github.com/levelstream/jsource"

// seconds are the bounds of the durations' buckets: from what an idle controller on one machine takes to what
// somebody is woken up for.
var seconds = metric.WithExplicitBucketBoundaries(
	.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)

// maker makes instruments, and keeps what went wrong for OpenTelemetry's error handler.
type maker struct{ meter metric.Meter }

func newMaker() maker { return maker{otel.Meter(scope)} }

func check[I any](i I, err error) I {
	if err != nil {
		otel.Handle(err)
	}
	return i
}

func (m maker) counter(name, unit, about string) metric.Int64ObservableCounter {
	return check(m.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(about)))
}

func (m maker) level(name, unit, about string) metric.Int64ObservableUpDownCounter {
	return check(m.meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(about)))
}

func (m maker) duration(name, about string) metric.Float64Histogram {
	return check(m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), seconds))
}

// reporter observes what somebody counts, whenever somebody else collects.
type reporter[R any] struct {
	labels any // which identify it

	mu           sync.Mutex
	read         func() R // nil once it has ended
	last         R        // what it read then
	registration metric.Registration
}

// reading is what is counted now, or was in the end.
func (r *reporter[R]) reading() (reading R, live bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read == nil {
		return r.last, false
	}
	return r.read(), true
}

// end reads for the last time. If another of the same labels has come meanwhile, nothing is reported any more.
func (r *reporter[R]) end() {
	r.mu.Lock()
	ended := r.read == nil
	if !ended {
		r.last, r.read = r.read(), nil
	}
	r.mu.Unlock()
	mu.Lock()
	defer mu.Unlock()
	if !ended && reporters[r.labels] != r {
		r.replace()
	}
}

var (
	mu        sync.Mutex
	reporters = map[any]replaced{} // by their labels: the last of those that have the same
)

type replaced interface{ replace() }

// replace stops the reports of what has ended.
func (r *reporter[R]) replace() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read != nil {
		return
	}
	if err := r.registration.Unregister(); err != nil {
		otel.Handle(err)
	}
}

// report registers observe, which is called with what read returns. labels identify who reports: once that has
// ended it gives way to the next of the same labels.
func report[R any](m maker, labels any, read func() R, observe func(o metric.Observer, reading R, live bool), instruments ...metric.Observable) *reporter[R] {
	mu.Lock()
	defer mu.Unlock()
	if old, ok := reporters[labels]; ok {
		old.replace()
	}
	r := &reporter[R]{labels: labels, read: read}
	r.registration = check(m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		reading, live := r.reading()
		observe(o, reading, live)
		return nil
	}, instruments...))
	reporters[labels] = r
	return r
}
