package kube_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/levelstream/jsource/internal/kubetest"
)

func TestMain(m *testing.M) {
	var ignored []goleak.Option
	if os.Getenv("JSOURCE_TEST_OLDEST") != "" {
		// The priority queue of controller-runtime 0.24 leaves some of these behind if it is shut down as it hands out.
		const queue = "sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...])."
		for _, name := range []string{"handleAddBuffer", "handleReadyItems", "handleWaitingItems", "logState", "updateUnfinishedWorkLoop"} {
			ignored = append(ignored, goleak.IgnoreAnyFunction(queue+name))
		}
	}
	kubetest.Main(m, map[string]func(){leaderChild: leader}, ignored...)
}
