package kube_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/kube"
)

// provider is the one of this process: the endpoint takes no second, also when a test runs again.
var provider = sync.OnceValues(func() (*sdkmetric.MeterProvider, error) { return kube.MeterProvider() })

// What this module measures is on the managers' endpoint, under names as Prometheus has them.
func TestMeterProvider_ShowsOursBesideTheirs(t *testing.T) {
	provider, err := provider()
	if err != nil {
		t.Fatal(err)
	}
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(provider)
	defer otel.SetMeterProvider(before)
	c, err := reconciler.New[string]("measured").Watch(pushes("a")).
		Func(func(context.Context, string) (reconciler.Result, error) { return reconciler.Result{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	natstest.Eventually(t, "an attempt has ended", natstest.Patience, func() error {
		if len(done) > 0 {
			t.Fatal(<-done)
		}
		if c.Stats().Attempts == 0 {
			return errors.New("none has")
		}
		return nil
	})
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	for _, name := range []string{
		"jsource_attempts_total", "jsource_requests_total", "jsource_queue_depth", "jsource_queue_wait_duration_seconds",
		"jsource_resync_changes_total", "workqueue_depth",
	} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not among %q", name, names)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// pushes is a source of one request.
type pushes string

func (p pushes) Start(ctx context.Context, out chan<- string) error {
	go func() {
		select {
		case out <- string(p):
		case <-ctx.Done():
		}
	}()
	return nil
}
