// Command fleetstage runs the fleet Stage controller against a real Kubernetes API server: with every source a
// Kubernetes kind, with promotion requests in a database, or with Targets there as well. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// bound is how long anything may take here.
const bound = 2 * time.Minute

// flags are the command's.
type flags struct {
	variant    string
	rollouts   bool
	kubeconfig string
	nats       string
	keep       bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out io.Writer) int {
	f, err := parse(args)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		fmt.Fprintln(os.Stderr, "fleetstage:", err)
		return 2
	}
	if err := play(ctx, f, out); err != nil {
		fmt.Fprintln(os.Stderr, "fleetstage:", err)
		return 1
	}
	return 0
}

func parse(args []string) (flags, error) {
	variants := []string{kinds, coreNATS, jetStream, withTargets}
	var f flags
	set := flag.NewFlagSet("fleetstage", flag.ContinueOnError)
	set.StringVar(&f.variant, "variant", jetStream, "where what it watches is kept: "+strings.Join(variants, ", "))
	set.BoolVar(&f.rollouts, "analysisruns", false, "watch AnalysisRuns as well")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "`file` with the cluster to use, in which the CRDs stay (default: an API server of its own)")
	set.StringVar(&f.nats, "nats", "", "`URL` of a NATS server with JetStream (default: one of its own)")
	set.BoolVar(&f.keep, "keep", false, "go on until Ctrl-C, to be looked at with kubectl")
	err := set.Parse(args)
	if err == nil && !slices.Contains(variants, f.variant) {
		err = fmt.Errorf("-variant %q: there are %s", f.variant, strings.Join(variants, ", "))
	}
	return f, err
}
