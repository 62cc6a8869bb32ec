//go:build unix

// Command chaos breaks servers, connections and controllers under load for as long as it is told, and then
// checks that no event was lost and no message judged twice. It exits with 1 if one was, with 2 if it could
// not be found out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/chaos"
	"github.com/levelstream/jsource/internal/history"
)

func main() {
	chaos.RunChild()
	os.Exit(run())
}

func run() int {
	kind := flag.String("kind", "both", "what to break: single (one server), cluster (three), or both, one after the other")
	duration := flag.Duration("duration", time.Minute, "how long to break things, for each kind; healing and waiting come on top")
	round := flag.Duration("round", time.Minute, "longest run in one go: a longer duration is made of several, each of its own seed (seed, seed+1, …)")
	seed := flag.Uint64("seed", 0, "what decides which faults come when; 0: one by the clock")
	rate := flag.Float64("rate", 0, "load in events per second; 0: 300 on one server, 150 on three")
	keys := flag.Int("keys", 64, "number of keys")
	every := flag.Duration("every", 700*time.Millisecond, "mean time from one fault to the next")
	ackWait := flag.Duration("ackwait", 0, "AckWait of the durable; 0: by the seed")
	pending := flag.Int("maxackpending", 0, "MaxAckPending of the durable, in messages; 0: by the seed")
	garbage := flag.Int("garbage", 5, "events in ten thousand that cannot be decoded")
	optional := flag.Bool("options", true, "let the seed choose HoldLimit, Supersede and MaxAttempts; else there are none of them")
	logs := flag.String("logs", "", "directory for the logs of the replicas; empty: none are kept")
	plan := flag.Bool("plan", false, "print the faults of the seed and do nothing")
	flag.Parse()

	kinds := []chaos.Kind{chaos.Kind(*kind)}
	if *kind == "both" {
		kinds = []chaos.Kind{chaos.Single, chaos.Cluster}
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano() % 1_000_000)
	}
	fmt.Printf("chaos: seed %d\n", *seed)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // a second interrupt ends it at once
	}()

	var (
		sum    history.Figures
		faults = map[chaos.FaultKind]int{}
		runs   int
		failed []string
	)
	for left, next := *duration, *seed; left > 0 && ctx.Err() == nil; left, next = left-*round, next+1 {
		for _, kind := range kinds {
			cfg := chaos.Config{
				Kind: kind, Seed: next, Duration: min(left, *round), Every: *every, Rate: *rate, Keys: *keys, AckWait: *ackWait,
				MaxAckPending: *pending, Garbage: *garbage, ByTheSeed: *optional, Logs: *logs, Out: os.Stdout,
			}
			if *plan {
				faults, err := cfg.Plan()
				if err != nil {
					fmt.Println(err)
					return 2
				}
				for _, f := range faults {
					fmt.Println(kind, f)
				}
				continue
			}
			var r *chaos.Result
			if !chaos.Stand(os.Stdout, func(tb testing.TB) { r = chaos.Run(ctx, tb, cfg) }) {
				fmt.Printf("%s, seed %d: could not be run to its end\n", kind, next)
				return 2
			}
			r.Print(os.Stdout)
			runs++
			sum.Add(r.Report.Figures)
			for k, n := range r.Faults {
				faults[k] += n
			}
			if r.Failed() {
				failed = append(failed, fmt.Sprintf("-kind %s -seed %d", kind, next))
			}
		}
	}
	if *plan {
		return 0
	}
	if runs > 1 {
		fmt.Printf("\nall %d runs: faults\n", runs)
		chaos.PrintFaults(os.Stdout, faults)
		fmt.Printf("all %d runs: figures\n", runs)
		sum.Print(os.Stdout)
	}
	if len(failed) > 0 {
		fmt.Printf("FAILED: %v\n", failed)
		return 1
	}
	return 0
}
