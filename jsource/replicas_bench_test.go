package jsource_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
)

// BenchmarkReplicas has one replica, and then two, work through as many stored events as it is asked for
// iterations. Besides the time for one it reports which share of them the busier replica had.
func BenchmarkReplicas(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run(fmt.Sprintf("replicas=%d", n), func(b *testing.B) {
			w := newUnwatched(b)
			w.publish("first")
			flood(b, w.js, 0, b.N)
			ctx, cancel := context.WithCancel(context.Background())
			counts := make([]atomic.Int64, n)
			controllers := make([]*reconciler.Controller[string], n)
			for i := range controllers {
				var err error
				controllers[i], err = reconciler.New[string](keeper).Logger(w.log).Workers(4).
					Watch(jsource.Subject(natstest.Connect(b, w.srv.URL()), widgets)).
					Reconciler(reconciler.Func[string](func(context.Context, string) (reconciler.Result, error) {
						counts[i].Add(1)
						return reconciler.Result{}, nil
					}))
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			var running sync.WaitGroup
			for _, c := range controllers {
				running.Go(func() {
					if err := c.Start(ctx); err != nil {
						b.Error(err)
					}
				})
			}
			natstest.WaitSettled(b, w.js, widgetStream, widgetDurable)
			b.StopTimer()
			cancel()
			running.Wait()
			var most, all int64
			for i := range counts {
				most, all = max(most, counts[i].Load()), all+counts[i].Load()
			}
			b.ReportMetric(100*float64(most)/float64(all), "%-busiest")
		})
	}
}
