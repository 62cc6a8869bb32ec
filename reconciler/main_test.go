package reconciler_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/util/workqueue"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	workqueue.SetProvider(metrics) // can be set once in a process
	goleak.VerifyTestMain(m)
}
