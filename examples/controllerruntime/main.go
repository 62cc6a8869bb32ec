// Command controllerruntime is an ordinary controller-runtime controller with a durable NATS source beside its
// Kubernetes kind. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// flags are the command's.
type flags struct {
	kubeconfig string
	nats       string
	settings   int
}

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

func run(args []string, out io.Writer) int {
	var f flags
	set := flag.NewFlagSet("controllerruntime", flag.ContinueOnError)
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "`file` with the cluster to use (default: an API server of its own)")
	set.StringVar(&f.nats, "nats", "", "`URL` of a NATS server with JetStream (default: one of its own)")
	set.IntVar(&f.settings, "settings", 20, "how many settings to change")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := play(ctx, f, out); err != nil {
		fmt.Fprintln(os.Stderr, "controllerruntime:", err)
		return 1
	}
	return 0
}
