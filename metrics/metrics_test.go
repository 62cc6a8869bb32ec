package metrics_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/levelstream/jsource/metrics"
)

// measure sets a provider for the test, and returns what collects the names of what is measured.
func measure(t *testing.T) (names func() []string, all func() metricdata.ResourceMetrics) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	before := otel.GetMeterProvider()
	t.Cleanup(func() { otel.SetMeterProvider(before) })
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	all = func() (rm metricdata.ResourceMetrics) {
		t.Helper()
		if err := reader.Collect(t.Context(), &rm); err != nil {
			t.Fatal(err)
		}
		return rm
	}
	return func() (list []string) {
		for _, scope := range all().ScopeMetrics {
			for _, m := range scope.Metrics {
				list = append(list, m.Name)
			}
		}
		slices.Sort(list)
		return list
	}, all
}

var labels = metrics.SourceLabels{Controller: "keeper", Topic: "shop.widgets", Durable: "keeper-shop_widgets"}

// What is measured is what the package's documentation lists.
func TestAllIsDocumented(t *testing.T) {
	names, _ := measure(t)
	s := metrics.NewSource(labels, func() metrics.SourceReading {
		return metrics.SourceReading{Letters: map[string]uint64{"terminal": 1}}
	})
	defer s.End()
	c := metrics.NewController("keeper", func() metrics.ControllerReading {
		return metrics.ControllerReading{Requests: map[string]uint64{"source": 1}, Attempts: map[string]uint64{"success": 1}}
	})
	defer c.End()
	s.Reconciled(nil, time.Second)
	c.Waited(time.Second)
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile(`(?m)^//\t([a-z][a-z._]+) `).FindAllStringSubmatch(string(doc), -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(documented)
	if got := names(); !slices.Equal(got, documented) {
		t.Errorf("measured are\n%q, documented\n%q", got, documented)
	}
}

// A source that ends keeps what it counted and has no state any more; the next of the same labels starts anew, and
// nothing is counted twice.
func TestOneAfterTheOther(t *testing.T) {
	_, all := measure(t)
	values := func() map[string]int64 { return sums(all()) }
	first := metrics.NewSource(labels, beats(3))
	if v := values(); v["jsource.heartbeats"] != 3 || v["jsource.messages.unsettled"] != 3 || v["jsource.source.healthy"] != 1 {
		t.Errorf("while it runs: %v", v)
	}
	first.End()
	first.End()
	v := values()
	if _, there := v["jsource.messages.unsettled"]; there || v["jsource.heartbeats"] != 3 {
		t.Errorf("after its end: %v", v)
	}
	second := metrics.NewSource(labels, beats(5))
	defer second.End()
	if v := values(); v["jsource.heartbeats"] != 5 {
		t.Errorf("of the next one: %v", v)
	}
}

// Of two at the same time the one that ends first is not counted for ever.
func TestTwoAtTheSameTime(t *testing.T) {
	_, all := measure(t)
	first := metrics.NewSource(labels, beats(3))
	second := metrics.NewSource(labels, beats(5))
	first.End()
	if v := sums(all()); v["jsource.heartbeats"] != 5 {
		t.Errorf("after one has ended: %v", v)
	}
	second.End()
	if v := sums(all()); v["jsource.heartbeats"] != 5 {
		t.Errorf("after both have: %v", v)
	}
}

// beats reads n heartbeats.
func beats(n uint64) func() metrics.SourceReading {
	return func() metrics.SourceReading { return metrics.SourceReading{Heartbeats: n, Held: int(n), Healthy: true} }
}

// sums adds up what has integers, by name.
func sums(rm metricdata.ResourceMetrics) map[string]int64 {
	v := map[string]int64{}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
				for _, p := range sum.DataPoints {
					v[m.Name] += p.Value
				}
			}
		}
	}
	return v
}

// Without a provider nothing is kept of what is recorded.
func TestUnsetAllocatesNothing(t *testing.T) {
	s := metrics.NewSource(labels, func() metrics.SourceReading { return metrics.SourceReading{} })
	defer s.End()
	if n := testing.AllocsPerRun(100, func() { s.Reconciled(nil, time.Second) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
