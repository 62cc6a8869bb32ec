package kube_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/levelstream/jsource/internal/kubetest"
)

func TestMain(m *testing.M) {
	// The priority queue of controller-runtime 0.24 leaves some of these behind if it is shut down as it hands out.
	const priorityQueue = "sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...])."
	var ignored []goleak.Option
	for _, name := range []string{"handleReadyItems", "handleWaitingItems", "handleAddBuffer", "logState", "updateUnfinishedWorkLoop"} {
		ignored = append(ignored, goleak.IgnoreAnyFunction(priorityQueue+name))
	}
	kubetest.Main(m, map[string]func(){leaderChild: leader}, ignored...)
}
