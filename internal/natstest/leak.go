package natstest

import (
	"testing"

	"go.uber.org/goleak"
)

// Main is for a package's TestMain: it becomes one of the children if the test binary was started
// as such (see [Child]), else it runs the tests and then fails if any goroutine is left. It ignores
// none of its own accord: what [Start], [StartCluster] and clients start is gone at the test's
// cleanup. opts are for a package with another dependency that cannot stop.
func Main(m *testing.M, children map[string]func(), opts ...goleak.Option) {
	RunChild(children)
	goleak.VerifyTestMain(m, opts...)
}
