//go:build unix

package chaos_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/chaos"
)

func TestNothingIsLostOnOneServer(t *testing.T) { short(t, chaos.Single, 1, 200*time.Millisecond) }

func TestNothingIsLostInACluster(t *testing.T) { short(t, chaos.Cluster, 1, 300*time.Millisecond) }

// short runs a schedule in which nearly everything goes wrong once.
func short(t *testing.T, kind chaos.Kind, seed uint64, every time.Duration) {
	if testing.Short() {
		t.Skip("breaks things for many seconds")
	}
	r := chaos.Run(context.Background(), t, chaos.Config{
		Kind: kind, Seed: seed, Duration: 11 * time.Second, Every: every, AckWait: 1500 * time.Millisecond,
		MaxAckPending: 256, Out: lines{t},
	})
	var b strings.Builder
	r.Print(&b)
	t.Log(b.String())
	if r.Failed() {
		t.Error("violations: see above")
	}
	if f := r.Report.Figures; f.Events < 300 || len(r.Faults) < 15 {
		t.Errorf("%d events, %d kinds of fault: too few to prove anything", f.Events, len(r.Faults))
	}
}

// lines logs what is written to it.
type lines struct{ t *testing.T }

func (l lines) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

func TestTheSeedDecidesThePlan(t *testing.T) {
	for _, kind := range []chaos.Kind{chaos.Single, chaos.Cluster} {
		plan := func(seed uint64) []chaos.Fault {
			c := chaos.Config{Kind: kind, Seed: seed, Duration: time.Minute, Every: 500 * time.Millisecond, AckWait: time.Second}
			faults, err := c.Plan()
			if err != nil {
				t.Fatal(err)
			}
			return faults
		}
		a, b, other := plan(1), plan(1), plan(2)
		if !slices.Equal(a, b) {
			t.Errorf("%s: one seed, two plans", kind)
		}
		if slices.Equal(a, other) {
			t.Errorf("%s: two seeds, one plan", kind)
		}
		kinds := map[chaos.FaultKind]bool{}
		for i, f := range a {
			kinds[f.Kind] = true
			if i > 0 && f.At < a[i-1].At {
				t.Errorf("%s: %v comes after %v", kind, f, a[i-1])
			}
		}
		if len(kinds) < 24 {
			t.Errorf("%s: only %d kinds of fault in a minute", kind, len(kinds))
		}
	}
}
