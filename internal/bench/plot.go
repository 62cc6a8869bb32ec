package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writePlots writes what the results can show into dir.
func writePlots(dir string, results []*Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder for the plots: %w", err)
	}
	for _, p := range []struct {
		name  string
		chart *chart
	}{
		{"throughput.svg", throughputChart(results)},
		{"latency.svg", latencyChart(results)},
		{"timeline.svg", timelineChart(results)},
	} {
		if p.chart == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, p.name), []byte(p.chart.svg()), 0o644); err != nil {
			return fmt.Errorf("writing a plot: %w", err)
		}
	}
	return nil
}

// axis collects what the runs differ in, in their order.
func axis[T comparable](results []*Result, of func(*Result) (T, bool)) []T {
	var all []T
	for _, r := range results {
		if v, ok := of(r); ok && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

func contendersOf(results []*Result) []string {
	return axis(results, func(r *Result) (string, bool) { return r.Contender, true })
}

// throughputChart is events per second against keys, as fast as it goes.
func throughputChart(results []*Result) *chart {
	keys := axis(results, func(r *Result) (int, bool) { return r.Spec.Keys, r.Spec.Rate == 0 })
	if len(keys) == 0 {
		return nil
	}
	c := &chart{
		title: "Throughput", x: "keys", y: "events per second, settled",
		subtitle: "as fast as it goes, " + rest(results[0]),
	}
	for _, k := range keys {
		name := thousands(int64(k))
		if k == 0 {
			name = "one for each event"
		}
		c.names = append(c.names, name)
	}
	for i, name := range contendersOf(results) {
		l := line{name: name, colour: i}
		for j, k := range keys {
			if v, ok := medianWhere(results, func(r *Result) (float64, bool) {
				return r.EventsPerSecond, r.Contender == name && r.Spec.Rate == 0 && r.Spec.Keys == k
			}); ok {
				l.xs, l.ys = append(l.xs, float64(j)), append(l.ys, v)
			}
		}
		c.lines = append(c.lines, l)
	}
	return c
}

// latencyChart is event-to-reconcile latency against the rate.
func latencyChart(results []*Result) *chart {
	rates := axis(results, func(r *Result) (float64, bool) { return r.Spec.Rate, r.ToReconcile != nil })
	if len(rates) == 0 {
		return nil
	}
	slices.Sort(rates)
	c := &chart{
		title: "Latency, event to reconcile", x: "events per second, open loop", y: "µs", logY: true,
		subtitle: "from the moment at which the event was to be published; " + rest(results[0]),
	}
	for _, r := range rates {
		c.names = append(c.names, number(r))
	}
	for i, name := range contendersOf(results) {
		for _, q := range []struct {
			name string
			of   func(*Latency) float64
		}{
			{"p50", func(l *Latency) float64 { return l.P50 }},
			{"p99", func(l *Latency) float64 { return l.P99 }},
		} {
			l := line{name: name + " " + q.name, colour: i, dashed: q.name == "p99"}
			for j, rate := range rates {
				if v, ok := medianWhere(results, func(r *Result) (float64, bool) {
					if r.ToReconcile == nil || r.Contender != name || r.Spec.Rate != rate {
						return 0, false
					}
					return q.of(r.ToReconcile), true
				}); ok {
					l.xs, l.ys = append(l.xs, float64(j)), append(l.ys, max(1, v))
				}
			}
			c.lines = append(c.lines, l)
		}
	}
	return c
}

// timelineChart is the events reconciled per second in the course of a run, of the last kind of run there
// was: the last round of each contender.
func timelineChart(results []*Result) *chart {
	last := map[string]*Result{}
	for _, r := range results {
		last[r.Contender] = r
	}
	c := &chart{title: "In the course of a run", x: "seconds", y: "events per second, reconciled"}
	most := 0.0
	for i, name := range contendersOf(results) {
		r := last[name]
		l := line{name: name, colour: i, ys: r.Timeline}
		for j := range r.Timeline {
			l.xs = append(l.xs, (float64(j)+0.5)*r.Seconds/float64(len(r.Timeline)))
		}
		most = max(most, r.Seconds)
		c.lines = append(c.lines, l)
		if r.FaultAt > 0 {
			c.mark, c.label = r.FaultAt, r.Spec.Fault
		}
		c.subtitle = r.Spec.short() + ", " + rest(r)
	}
	for i := range 5 {
		at := most * float64(i) / 4
		c.names, c.at = append(c.names, fmt.Sprintf("%.1f", at)), append(c.at, at)
	}
	return c
}

// rest is what the runs of a plot have in common.
func rest(r *Result) string {
	s := &r.Spec
	parts := []string{fmt.Sprintf("%d B, reconcile %s, %d workers, %s, %d replica(s)", s.Payload, s.Reconcile, s.Workers, s.Storage, s.Replicas)}
	if s.Fault != faultNone {
		parts = append(parts, "fault: "+s.Fault)
	}
	return strings.Join(parts, ", ")
}

// medianWhere is the median of those results that get accepts.
func medianWhere(results []*Result, get func(*Result) (float64, bool)) (float64, bool) {
	var values []float64
	for _, r := range results {
		if v, ok := get(r); ok {
			values = append(values, v)
		}
	}
	return median(values), len(values) > 0
}
