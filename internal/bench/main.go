package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// Main is the command: it measures those of the contenders that the arguments choose, and returns its exit
// status.
func Main(name string, args []string, contenders []Contender) int {
	s, err := parse(name, args, os.Stderr, contenders)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := playAll(ctx, s, os.Stdout, newProgress(os.Stderr)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		if ctx.Err() != nil {
			return 130 // as a shell says of what Ctrl-C ended
		}
		return 1
	}
	return 0
}

// playAll makes all runs and prints what they come to.
func playAll(ctx context.Context, s *settings, out io.Writer, prog *progress) (err error) {
	var results []*Result
	specs := s.specs()
	total := len(specs) * s.rounds * len(s.contenders)
	for _, spec := range specs {
		of := make([][]*Result, len(s.contenders))
		for round := range s.rounds {
			for i := range s.contenders {
				c := &s.contenders[i]
				prog.begin(len(results)+1, total, c.Name, spec)
				r, err := measure(ctx, c, spec, s.profile(len(results)+1, c), prog.watch)
				prog.end()
				if err != nil {
					return err
				}
				r.Round = round + 1
				results = append(results, r)
				of[i] = append(of[i], r)
			}
		}
		if s.output == "table" {
			printTable(out, spec, summaries(of), s.rounds)
		}
	}
	if s.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		err = e.Encode(report{
			Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Runs: results,
		})
		if err != nil {
			return fmt.Errorf("printing the results: %w", err)
		}
	}
	if s.plots != "" {
		if err := writePlots(s.plots, results); err != nil {
			return err
		}
	}
	return failure(results)
}

// report is what -o json prints.
type report struct {
	Go   string    `json:"go"`
	OS   string    `json:"os"`
	CPUs int       `json:"cpus"`
	Runs []*Result `json:"runs"`
}

// failure is an error if a contender that may not lose anything did, or left something unsettled.
func failure(results []*Result) error {
	var errs []error
	for _, r := range results {
		if r.Unsafe {
			continue
		}
		if r.Lost > 0 {
			errs = append(errs, fmt.Errorf("%s lost %d of %d events, and promises to lose none", r.Contender, r.Lost, r.Spec.Events))
		}
		if r.Settled < uint64(r.Spec.Events) {
			errs = append(errs, fmt.Errorf("%s: the server says that it settled %d of %d events", r.Contender, r.Settled, r.Spec.Events))
		}
	}
	return errors.Join(errs...)
}
