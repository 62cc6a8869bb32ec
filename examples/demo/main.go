// Command demo kills a controller and counts what it loses: the fleet-stage controller runs twice, fed by
// core NATS and by JetStream, from the same database and the same events. See README.md.
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
)

const (
	exitLost        = 1 // or anything else went wrong
	exitUsage       = 2
	exitInterrupted = 130 // as a shell says of what Ctrl-C ended
)

func main() { os.Exit(run(os.Args[1:])) }

// settings are the flags.
type settings struct {
	url    string
	creds  string
	events int
	keys   int
	rate   int
	resync time.Duration
	seed   uint64
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A write to a connection whose other end was killed raises it too, and that is no reason to end.
	signal.Ignore(syscall.SIGPIPE)
	// Who presses Ctrl-C again while the demo cleans up does not want to wait for that. At once it may be the
	// same one: programs like timeout pass a signal on that the whole process group gets as well.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	err = play(ctx, s, &output{File: os.Stdout, gone: stop}, terminalOf(os.Stdout))
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "demo:", err)
	if errors.Is(err, errInterrupted) {
		return exitInterrupted
	}
	return exitLost
}

// output is where the demo prints. Once whoever read it has gone, as head does, the demo need not go on.
type output struct {
	*os.File
	gone func()
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	if err != nil {
		o.gone()
	}
	return n, err
}

const usage = `Usage: demo [flags]

Runs the fleet-stage controller twice, once on core NATS and once on JetStream, fed from one database and
by the same events; kills both with SIGKILL under load, starts them again, later cuts their link to NATS
for a moment, and counts the events each has lost. Exits with a status other than 0 if the one on
JetStream lost any. Takes about half a minute, needs nothing, and leaves nothing behind.

`

// parse reads the flags. What is wrong with them, and help, is printed to out.
func parse(args []string, out io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() {
		fmt.Fprint(out, usage)
		f.PrintDefaults()
	}
	f.StringVar(&s.url, "nats", "", "`URL` of a NATS server with JetStream, from which the streams of this run "+
		"are removed at the end (default: a server of the demo's own)")
	f.StringVar(&s.creds, "creds", "", "credentials `file` for that server")
	f.IntVar(&s.events, "events", 12000, "events to publish, at least 100")
	f.IntVar(&s.keys, "keys", 1000, "Stages, at least 10: the keys that are reconciled")
	f.IntVar(&s.rate, "rate", 600, "events per second")
	f.DurationVar(&s.resync, "resync", 15*time.Second, "how often each controller lists all Stages, at least "+
		"1s; what core NATS loses while the link is cut stays unnoticed that long")
	f.Uint64Var(&s.seed, "seed", 1, "seed of the made-up load")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	var wrong error
	switch {
	case f.NArg() > 0:
		wrong = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case s.events < 100:
		wrong = fmt.Errorf("-events %d: at least 100 are needed", s.events)
	case s.keys < 10:
		wrong = fmt.Errorf("-keys %d: at least 10 are needed", s.keys)
	case s.rate < 1:
		wrong = fmt.Errorf("-rate %d: at least 1 is needed", s.rate)
	case s.resync < time.Second:
		wrong = fmt.Errorf("-resync %v: at least 1s is needed", s.resync)
	}
	if wrong != nil {
		fmt.Fprintf(out, "%v (-h lists the flags)\n", wrong)
	}
	return s, wrong
}
