package metrics

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// ControllerReading is what a controller has counted, and how it is doing.
type ControllerReading struct {
	Requests                  map[string]uint64 // pushed, by source
	Attempts                  map[string]uint64 // that ended, by outcome
	ResyncOnly, ResyncChanged uint64
	Queued, Owed              int
}

// Controller reports on one controller.
type Controller struct {
	reporter *reporter[ControllerReading]
	wait     metric.Float64Histogram
	labels   []metric.RecordOption
}

// controllerLabels tell a controller from a source among what reports.
type controllerLabels struct{ name string }

// NewController reports on the controller of that name from now on; read is called whenever somebody collects. Call
// End when it has stopped.
func NewController(name string, read func() ControllerReading) *Controller {
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(more, attribute.String("jsource.controller", name))...))
	}
	var (
		plain    = with()
		m        = newMaker()
		requests = m.counter("jsource.requests", "{request}", "Requests pushed, by source.")
		owed     = m.level("jsource.requests.owed", "{request}", "Requests that messages owe.")
		attempts = m.counter("jsource.attempts", "{attempt}", "Attempts that ended, by outcome.")
		depth    = m.level("jsource.queue.depth", "{request}", "Requests that wait, without those that are delayed.")
		resyncs  = m.counter("jsource.resync.attempts", "{attempt}", "Attempts that only the resync caused, on requests that no message owed.")
		changes  = m.counter("jsource.resync.changes", "{attempt}", "Those of them that changed something: work that events missed.")
	)
	c := &Controller{
		wait:   m.duration("jsource.queue.wait.duration", "From a request's being queued to its attempt."),
		labels: []metric.RecordOption{plain},
	}
	c.reporter = report(m, controllerLabels{name}, read, func(o metric.Observer, r ControllerReading, live bool) {
		for source, n := range r.Requests {
			o.ObserveInt64(requests, int64(n), with(attribute.String("jsource.source", source)))
		}
		for outcome, n := range r.Attempts {
			o.ObserveInt64(attempts, int64(n), with(attribute.String("jsource.outcome", outcome)))
		}
		o.ObserveInt64(resyncs, int64(r.ResyncOnly), plain)
		o.ObserveInt64(changes, int64(r.ResyncChanged), plain)
		if live {
			o.ObserveInt64(owed, int64(r.Owed), plain)
			o.ObserveInt64(depth, int64(r.Queued), plain)
		}
	}, requests, owed, attempts, depth, resyncs, changes)
	return c
}

// Waited records that a request waited so long for its attempt.
func (c *Controller) Waited(d time.Duration) {
	c.wait.Record(context.Background(), d.Seconds(), c.labels...)
}

// End says that the controller has stopped: what it counted stays as it is.
func (c *Controller) End() { c.reporter.end() }
