package main

import (
	"os"
	"testing"

	"github.com/levelstream/jsource/internal/bench"
)

func TestMain(m *testing.M) {
	bench.ServeIfChild()
	os.Exit(m.Run())
}

// TestEachSettlesAll: whatever is compared does the same work, and says so when it does not.
func TestEachSettlesAll(t *testing.T) {
	for _, c := range contenders() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			for _, rate := range []float64{0, 1000} {
				spec := bench.DefaultSpec()
				spec.Events, spec.Keys, spec.Rate = 200, 20, rate
				r, err := bench.Measure(t.Context(), &c, &spec, func() {})
				if err != nil {
					t.Fatal(err)
				}
				if r.Lost > 0 || r.Covered != spec.Events || !c.Core && r.Settled != uint64(spec.Events) {
					t.Errorf("rate %v: %d of %d events covered, %d lost, %d settled", rate, r.Covered, spec.Events, r.Lost, r.Settled)
				}
			}
		})
	}
}
