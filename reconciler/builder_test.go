package reconciler_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/levelstream/jsource/reconciler"
)

func TestBuilder_ReportsAllThatIsWrongAtOnce(t *testing.T) {
	_, err := reconciler.New[string]("").
		Watch(nil).
		Workers(0).
		RateLimiter(nil).
		Timeout(-time.Second).
		Grace(-time.Second).
		Outcome(nil).
		Func(nil)
	for _, want := range []string{
		`building controller ""`, "needs a name", "source 1 is nil", "0 workers", "rate limiter is nil",
		"timeout -1s is negative", "grace period -1s is negative", "outcome policy is nil",
		"the Reconciler is nil", "watches no source",
	} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func TestBuilder_NilReconcilerIsAnError(t *testing.T) {
	_, err := reconciler.New[string]("invoices").Watch(events()).Reconciler(nil)
	equal(t, "error", fmt.Sprint(err), `building controller "invoices": the Reconciler is nil`)
}

// A controller that is built and never started must leave nothing behind: TestMain looks for goroutines.
func TestBuilder_BuildingStartsNothing(t *testing.T) {
	c := build(t, reconciler.New[string]("invoices").Watch(events()), nothing)
	equal(t, "name", c.Name(), "invoices")
	equal(t, "stats before the start", c.Stats(), reconciler.Stats{})
}

// One Builder may make several controllers; an error of one is not the other's.
func TestBuilder_CanBeUsedAgain(t *testing.T) {
	b := reconciler.New[string]("invoices")
	for range 2 {
		_, err := b.Func(nil)
		equal(t, "lines of the error", strings.Count(fmt.Sprint(err), "\n"), 1)
	}
	first := build(t, b.Watch(events("a")), nothing)
	second := build(t, b.Watch(events("b")), nothing)
	stopped(t, start(t, first))
	stopped(t, start(t, second))
}
