package main

import (
	"testing"

	"github.com/levelstream/jsource/internal/bench"
)

// An operation is one event, from the server through the controller to its settlement; the time that it takes
// to make servers, streams and the events is not counted. The server runs in this process, which its
// allocations are part of. No tracing, no metrics.
//
//	go test -bench . -benchtime 100000x ./bench

func BenchmarkEvents(b *testing.B) {
	for _, keys := range []struct {
		name string
		n    int
	}{{"keys=10000", 10_000}, {"keys=1", 1}} {
		for _, c := range bench.Ours() {
			b.Run(keys.name+"/source="+c.Name, func(b *testing.B) {
				b.ReportAllocs()
				spec := bench.DefaultSpec()
				spec.Keys, spec.Events = keys.n, b.N
				b.StopTimer()
				r, err := bench.Measure(b.Context(), &c, &spec, b.StartTimer)
				b.StopTimer()
				if err != nil {
					b.Fatal(err)
				}
				if r.Lost > 0 {
					b.Errorf("%d of %d events lost", r.Lost, b.N)
				}
				b.ReportMetric(r.Seconds*1e9/float64(b.N), "ns/op")
				b.ReportMetric(r.AllocsPerEvent, "allocs/op")
				b.ReportMetric(r.AllocBytesPerEvent, "B/op")
				b.ReportMetric(r.EventsPerSecond, "events/s")
				b.ReportMetric(r.AttemptsPerEvent, "reconciles/op")
			})
		}
	}
}
