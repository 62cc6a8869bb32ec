package metrics_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/list"
)

// A provider that is set before the controller starts is all it takes. This one's reader is asked by hand; in a real program
// it exports to Prometheus or a collector.
func Example() {
	reader := sdkmetric.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	defer otel.SetMeterProvider(before)

	ctx, stop := context.WithCancel(context.Background())
	customers := func(context.Context) ([]string, error) { return []string{"alice"}, nil }
	controller, err := reconciler.New[string]("invoices").Watch(list.New(customers)).
		Func(func(context.Context, string) (reconciler.Result, error) {
			stop() // a real controller runs on
			return reconciler.Result{}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	if err := controller.Start(ctx); err != nil {
		log.Fatal(err)
	}

	var rm metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &rm); err != nil {
		log.Fatal(err)
	}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "jsource.attempts" {
				for _, p := range sum.DataPoints {
					if outcome, _ := p.Attributes.Value("jsource.outcome"); p.Value > 0 {
						fmt.Println(m.Name, outcome.AsString(), p.Value)
					}
				}
			}
		}
	}
	// Output: jsource.attempts success 1
}
