package kube_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/levelstream/jsource/internal/kubetest"
)

func TestMain(m *testing.M) {
	// The priority queue of controller-runtime 0.24 leaves this goroutine behind if it is shut down as it hands out.
	kubetest.Main(m, map[string]func(){leaderChild: leader}, goleak.IgnoreAnyFunction(
		"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue.(*priorityqueue[...]).handleReadyItems"))
}
