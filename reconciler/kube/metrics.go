package kube

import (
	"fmt"

	"go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// MeterProvider returns a provider of OpenTelemetry meters whose metrics appear on the metrics endpoint of
// controller-runtime's managers, beside theirs. Set it before controllers start:
//
//	provider, err := kube.MeterProvider()
//	…
//	otel.SetMeterProvider(provider)
//
// What this module measures is listed in package metrics; in Prometheus jsource.event_to_reconcile.duration is
// jsource_event_to_reconcile_duration_seconds. opts are for other readers, a resource or views. Call it once in a
// process: a second one would show everything twice, which the endpoint refuses.
func MeterProvider(opts ...sdkmetric.Option) (*sdkmetric.MeterProvider, error) {
	exporter, err := prometheus.New(prometheus.WithRegisterer(metrics.Registry), prometheus.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("showing metrics on controller-runtime's endpoint: %w", err)
	}
	return sdkmetric.NewMeterProvider(append(opts, sdkmetric.WithReader(exporter))...), nil
}
