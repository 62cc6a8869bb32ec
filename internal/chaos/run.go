//go:build unix

package chaos

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/history"
)

// progressEvery is how often a run says how it goes.
const progressEvery = 5 * time.Second

// Result is what came of a run.
type Result struct {
	Config   Config
	Faults   map[FaultKind]int // how often each was injected
	Missed   map[FaultKind]int // how often there was nothing for it to hit
	Replicas int               // processes that were started
	Notes    []string          // what replicas did by themselves that is no violation
	Crashes  []string          // and what is one
	Report   *history.Report
}

// Failed reports whether any rule was violated.
func (r *Result) Failed() bool { return len(r.Report.Violations) > 0 || len(r.Crashes) > 0 }

// Run runs one schedule and judges it. When ctx ends the faults end early; the rest goes on. A failure of
// what the run stands on fails tb; a violation is only in the result.
func Run(ctx context.Context, tb testing.TB, cfg Config) *Result {
	tb.Helper()
	if err := cfg.complete(); err != nil {
		tb.Fatal(err)
	}
	w := build(tb, cfg)
	w.printf("%s: seed %d, faults for %v, %v events a second, AckWait %v, MaxAckPending %d, HoldLimit %v, Supersede %t, MaxAttempts %d",
		cfg.Kind, cfg.Seed, cfg.Duration, cfg.Rate, cfg.AckWait, cfg.MaxAckPending, cfg.HoldLimit, cfg.Supersede, cfg.MaxAttempts)
	w.load.start(cfg.Seed, cfg.Keys)
	tb.Cleanup(w.load.halt) // nothing to do, unless the run ends early
	w.rage(ctx)
	w.printf("healing")
	w.heal()
	w.printf("healed")
	final := w.settle(ctx)
	w.printf("idle after %v (timed out: %t)", final.Waited.Round(time.Millisecond), final.TimedOut)
	w.dismiss()
	err := w.inspect(&final)
	w.rec.Change(func(h *history.History) { h.Final = final })
	r := &Result{
		Config: cfg, Faults: w.faults, Missed: w.missed, Replicas: w.made,
		Report: history.Check(w.rec.History()),
	}
	if err != nil {
		w.note(true, "at the end: %v", err)
	}
	for _, n := range w.notes {
		if n.bad {
			r.Crashes = append(r.Crashes, n.text)
		} else {
			r.Notes = append(r.Notes, n.text)
		}
	}
	w.printf("judged")
	return r
}

// rage carries out the plan.
func (w *world) rage(ctx context.Context) {
	from := w.since()
	for _, f := range w.cfg.plan() {
		w.steps = append(w.steps, step{from + f.At, func() { w.strike(f) }})
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	said := time.Now()
	for w.since() < from+w.cfg.Duration {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for len(w.steps) > 0 && w.steps[0].at <= w.since() {
			do := w.steps[0].do
			w.steps = w.steps[1:]
			do()
		}
		w.notice()
		if time.Since(said) > progressEvery {
			said = time.Now()
			w.progress()
		}
	}
}

func (w *world) progress() {
	publishes, deliveries, attempts, signals := w.rec.Progress()
	var here []string
	for _, r := range w.seats {
		if r != nil && !r.gone() {
			here = append(here, r.name)
		}
	}
	n := 0
	for _, count := range w.faults {
		n += count
	}
	w.printf("%d publishes, %d deliveries, %d attempts, %d signals; %d faults; replicas %s; last: %v",
		publishes, deliveries, attempts, signals, n, strings.Join(here, " "), w.last)
}

// Print writes the figures, and if the run failed what is wrong, and how to have it again.
func (r *Result) Print(out io.Writer) {
	fmt.Fprintf(out, "%s, seed %d: faults\n", r.Config.Kind, r.Config.Seed)
	PrintFaults(out, r.Faults)
	fmt.Fprintf(out, "%s, seed %d: figures (%d replicas)\n", r.Config.Kind, r.Config.Seed, r.Replicas)
	r.Report.Figures.Print(out)
	for _, n := range r.Notes {
		fmt.Fprintf(out, "note: %s\n", n)
	}
	if !r.Failed() {
		return
	}
	for _, c := range r.Crashes {
		fmt.Fprintf(out, "VIOLATION: %s\n", c)
	}
	r.Report.Tell(out, 5)
	fmt.Fprintf(out, "%d violations. The same faults again: go run ./internal/chaos/cmd/chaos -kind %s -duration %v -seed %d\n",
		len(r.Report.Violations)+len(r.Crashes), r.Config.Kind, r.Config.Duration, r.Config.Seed)
}

// PrintFaults writes how often each kind of fault was injected.
func PrintFaults(out io.Writer, faults map[FaultKind]int) {
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(out, "  %-34s %d\n", kind, faults[kind])
	}
}
