package kube_test

import (
	"context"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/reconciler/kube"
)

func TestSource_PushesIntoTheQueue(t *testing.T) {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer q.ShutDown()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	src := kube.Source(sourceFunc(func(ctx context.Context, out chan<- string) error {
		go func() {
			select {
			case out <- "a":
			case <-ctx.Done():
			}
		}()
		return nil
	}))
	if err := src.Start(ctx, q); err != nil {
		t.Fatal(err)
	}
	if got, _ := q.Get(); got != "a" {
		t.Errorf("queued %q", got)
	}
}
