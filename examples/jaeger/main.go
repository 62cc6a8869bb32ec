// Command jaeger shows where an event's time goes: the fleet-stage controller is fed through JetStream, killed and started again,
// and a real Jaeger holds the traces that lead from each event to its reconciles. See README.md.
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
	"syscall"
	"time"

	"golang.org/x/term"
)

const (
	exitUsage       = 2
	exitInterrupted = 130 // as a shell says of what Ctrl-C ended
)

func main() { os.Exit(run(os.Args[1:])) }

// settings are the flags.
type settings struct {
	jaeger   string // base URL of somebody's
	otlp     string // its OTLP/gRPC endpoint
	duration time.Duration
	rate     int
	keep     bool
}

func run(args []string) int {
	if slices.Equal(args, []string{roleFlag, roleController}) {
		if err := runController(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	s, err := parse(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	}
	if term.IsTerminal(int(os.Stdout.Fd())) {
		s.keep = true
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	switch err := play(ctx, s, os.Stdout); {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "jaeger: interrupted")
		return exitInterrupted
	default:
		fmt.Fprintln(os.Stderr, "jaeger:", err)
		return 1
	}
}

const usage = `Usage: jaeger [flags]

Publishes PromotionRequests under load to a fleet-stage controller, which is killed with SIGKILL once and started
again, with traces going to Jaeger; then prints links to the three most telling ones: the slowest event, one that
was redelivered after the kill, and one of many events that one attempt reconciled. Takes about half a minute. In
a terminal Jaeger runs on until Ctrl-C. Nothing is left behind.

`

// parse reads the flags. What is wrong with them, and help, is printed to out.
func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("jaeger", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() {
		fmt.Fprint(out, usage)
		f.PrintDefaults()
	}
	f.StringVar(&s.jaeger, "jaeger", "", "base `URL` of the UI of a Jaeger 2 of yours, such as http://localhost:16686, "+
		"which the links then lead to (default: one of its own, with a page that follows links)")
	f.StringVar(&s.otlp, "otlp", "", "`host:port` where that Jaeger takes OTLP/gRPC, without TLS (default: port 4317 of its host)")
	f.DurationVar(&s.duration, "duration", 20*time.Second, "how long to publish, 5s to 10m")
	f.IntVar(&s.rate, "rate", 100, "events per second, 10 to 1000")
	f.BoolVar(&s.keep, "keep", false, "keep Jaeger running until Ctrl-C at the end, as it is in a terminal (default false)")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	wrong := s.check(f.Args())
	if wrong != nil {
		fmt.Fprintf(out, "%v (-h lists the flags)\n", wrong)
	}
	return s, wrong
}

func (s *settings) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case s.duration < 5*time.Second || s.duration > 10*time.Minute:
		return fmt.Errorf("-duration %v: 5s to 10m are possible", s.duration)
	case s.rate < 10 || s.rate > 1000:
		return fmt.Errorf("-rate %d: 10 to 1000 are possible", s.rate)
	case s.otlp != "" && s.jaeger == "":
		return errors.New("-otlp is of use with -jaeger only")
	case s.jaeger == "":
		return nil
	}
	endpoint, err := endpointOf(s.jaeger)
	if err != nil {
		return fmt.Errorf("-jaeger: %w", err)
	}
	if s.otlp == "" {
		s.otlp = endpoint
	}
	return nil
}
