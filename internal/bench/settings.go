package bench

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings are the flags.
type settings struct {
	contenders []Contender // the chosen ones, in their order
	base       Spec
	keys       []int
	rates      []float64
	duration   time.Duration
	rounds     int
	output     string
	plots      string
	profiles   string
}

const help = `Usage: %s [flags]

Measures how fast events go from NATS through a controller, how late they get there and what that costs, for
each of these, one after the other, on servers, streams and connections of their own:

%s
With -rate 0 everything is as fast as it goes: a stream holds all events before it begins, core NATS is fed so
that nothing overflows. With another rate each event has its time, and latency counts from that: a stall
makes all events late that it delays. Lists make several runs. Exits with a status other than 0 if a source
that promises to lose nothing did. The default takes about half a minute, needs nothing and leaves nothing
behind.

`

// parse reads the flags. What is wrong with them, and help, is printed to out.
func parse(name string, args []string, out io.Writer, contenders []Contender) (*settings, error) {
	s := &settings{base: DefaultSpec()}
	var names []string
	var list strings.Builder
	for _, c := range contenders {
		names = append(names, c.Name)
		fmt.Fprintf(&list, "  %-24s if the process dies, an event it has received is %s\n", c.Name, c.Promise)
	}
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() {
		fmt.Fprintf(out, help, name, list.String())
		f.PrintDefaults()
	}
	b := &s.base
	source := f.String("source", "both", "what to measure: `names` from the list above, separated by commas; "+
		"both: core,jsource; all: all of them")
	if len(contenders) > len(Ours()) {
		f.Lookup("source").DefValue = "all"
		*source = "all"
	}
	keys := f.String("keys", "10000", "how many keys the events are about, chosen at random; a `list` makes several runs; "+
		"0: a key of its own for each event")
	f.IntVar(&b.Payload, "payload", b.Payload, fmt.Sprintf("bytes of an event's JSON, at least %d; more is more objects in it", minPayload))
	f.IntVar(&b.Workers, "workers", b.Workers, "how many requests are reconciled at once")
	f.StringVar(&b.Reconcile, "reconcile", b.Reconcile, "how long a reconcile takes: none; a `duration` (10ms); or a heavy tail "+
		"with a mean (heavy:1ms: one in a hundred takes 7 times the mean, one in a thousand 33 times). It waits, it takes no CPU")
	rate := f.String("rate", "0,1000", "`events per second`, published on time (open loop); 0: as fast as it goes; a list makes several runs")
	f.IntVar(&b.Events, "events", b.Events, "events in a run; with a rate, at most what -duration allows")
	f.DurationVar(&s.duration, "duration", 5*time.Second, "how long a run with a rate publishes at most")
	f.StringVar(&b.Storage, "storage", b.Storage, "of the stream: memory or file")
	f.IntVar(&b.Replicas, "replicas", b.Replicas, "of the stream: 1, or 3 on three servers")
	f.IntVar(&b.Publishers, "publishers", b.Publishers, "how many connections publish, taking turns; none of them waits for answers")
	f.StringVar(&b.Fault, "fault", b.Fault, "what happens when half of the events are reconciled: none; restart: a server "+
		"is away for half a second (killed with -server process); cut: so is the connection of the controller")
	f.StringVar(&b.URL, "nats", "", "`URL` of a NATS server with JetStream, from which the streams of each run are removed "+
		"at its end (default: servers of the benchmark's own)")
	f.StringVar(&b.Server, "server", b.Server, "where those servers run: inprocess (their CPU, memory and allocations count "+
		"as the contender's) or process (a child process)")
	f.IntVar(&b.MaxAckPending, "max-ack-pending", 0, "how many messages may be unsettled at once; 0: the contender's default, which is 1000 for all")
	f.DurationVar(&b.AckWait, "ack-wait", 0, "after how long an unsettled message is handed out again, also one that was on its way "+
		"when a connection broke; 0: the contender's default, which is 30s for all")
	f.IntVar(&s.rounds, "rounds", 1, "how often each is measured, in turn; the median is shown")
	f.StringVar(&s.output, "o", "table", "what to print at the end: table, or json with every run")
	f.StringVar(&s.plots, "plots", "", "`folder` for plots as SVG: throughput against keys, latency against rate, time lines")
	f.StringVar(&s.profiles, "profiles", "", "`folder` for a CPU profile of each run, without its preparation, for go tool pprof; "+
		"with -server process they are without the server")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	err := s.complete(f, *source, *keys, *rate, contenders, names)
	if err != nil {
		fmt.Fprintf(out, "%v (-h lists the flags)\n", err)
	}
	return s, err
}

// complete fills in what is not a flag by itself, and checks all of it.
func (s *settings) complete(f *flag.FlagSet, source, keys, rate string, contenders []Contender, names []string) error {
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	switch source {
	case "both":
		source = Core + "," + JSource
	case "all":
		source = strings.Join(names, ",")
	}
	for name := range strings.SplitSeq(source, ",") {
		i := slices.Index(names, name)
		if i < 0 {
			return fmt.Errorf("-source %q: there are %s", name, strings.Join(names, ", "))
		}
		s.contenders = append(s.contenders, contenders[i])
	}
	var err error
	if s.keys, err = listOf("keys", keys, strconv.Atoi); err != nil {
		return err
	}
	if s.rates, err = listOf("rate", rate, func(t string) (float64, error) { return strconv.ParseFloat(t, 64) }); err != nil {
		return err
	}
	switch {
	case s.duration <= 0 || s.duration > time.Hour:
		return fmt.Errorf("-duration %v: more than 0, up to 1h", s.duration)
	case s.rounds < 1 || s.rounds > 100:
		return fmt.Errorf("-rounds %d: 1 to 100", s.rounds)
	case s.output != "table" && s.output != "json":
		return fmt.Errorf("-o %q: table or json", s.output)
	}
	var errs []error
	for _, spec := range s.specs() {
		errs = append(errs, spec.validate())
	}
	return errors.Join(errs...)
}

func listOf[T any](name, text string, parse func(string) (T, error)) ([]T, error) {
	var all []T
	for part := range strings.SplitSeq(text, ",") {
		v, err := parse(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("-%s %q: %q is no number", name, text, part)
		}
		all = append(all, v)
	}
	return all, nil
}

// specs are the runs, each of which every contender makes.
func (s *settings) specs() []*Spec {
	var all []*Spec
	for _, rate := range s.rates {
		for _, keys := range s.keys {
			spec := s.base
			spec.Keys, spec.Rate = keys, rate
			if rate > 0 {
				spec.Events = max(1, min(spec.Events, int(rate*s.duration.Seconds())))
			}
			all = append(all, &spec)
		}
	}
	return all
}
