package kubetest

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/levelstream/jsource/internal/natstest"
)

// Main is for a package's TestMain: natstest.Main with the API server stopped before goroutines are counted.
func Main(m *testing.M, children map[string]func(), opts ...goleak.Option) {
	// Errors are what many tests are about: controller-runtime would print them all.
	log.SetLogger(logr.Discard())
	natstest.RunChild(children)
	goleak.VerifyTestMain(stopping{m}, opts...)
}

// stopping runs the tests and stops the API server.
type stopping struct{ m *testing.M }

func (s stopping) Run() int {
	code := s.m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		return max(code, 1)
	}
	return code
}
