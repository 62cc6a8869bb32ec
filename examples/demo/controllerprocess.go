package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/reconciler"
)

// order is what a controller's process is told on the first line of its standard input. The lines after
// it are cutLink and mendLink; the end of the input means stop, so that no controller outlives the demo.
type order struct {
	JetStream bool // else core NATS
	URL       string
	Creds     string
	Topic     string
	Requests  string // database files
	Statuses  string
	Resync    time.Duration
}

const (
	cutLink  = "cut"
	mendLink = "mend"
)

// A report is one line on the standard output of a controller's process.
type report struct {
	Kind        string
	Owed        int    // requests that messages owe
	Redelivered uint64 // messages that came more than once
}

const (
	reportBack        = "back"        // its event sources are running
	reportCut         = "cut"         // its link is
	reportReconnected = "reconnected" // to NATS
	reportCounts      = "counts"

	reportEvery = 200 * time.Millisecond
)

// runController is the whole of a controller's process.
func runController(in io.Reader, out io.Writer) error {
	// Ctrl-C reaches every process of the terminal: it is for the demo to say when to stop.
	signal.Ignore(os.Interrupt)
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return fmt.Errorf("no orders: this process is started by the demo (%w)", io.ErrUnexpectedEOF)
	}
	var o order
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return fmt.Errorf("reading the orders: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	p := &process{order: o, link: newLink(), out: json.NewEncoder(out)}
	go func() {
		defer stop()
		for lines.Scan() {
			switch lines.Text() {
			case cutLink:
				p.link.cut()
				p.report(report{Kind: reportCut})
			case mendLink:
				p.link.mend()
			}
		}
	}()
	return p.run(ctx)
}

// process is the inside of a controller's process.
type process struct {
	order
	link *link

	mu  sync.Mutex
	out *json.Encoder
}

func (p *process) report(r report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.out.Encode(r); err != nil {
		slog.Error("reporting to the demo", "error", err)
	}
}

func (p *process) run(ctx context.Context) (err error) {
	f := &fleetStage{seen: newWitness(func() { p.report(report{Kind: reportBack}) })}
	if f.requests, err = openStore(ctx, p.Requests); err != nil {
		return err
	}
	defer f.requests.Close()
	if f.statuses, err = openStatuses(p.Statuses); err != nil {
		return err
	}
	defer f.statuses.Close()
	conn, err := connect(p.URL, p.Creds, natsgo.SetCustomDialer(p.link),
		natsgo.ReconnectHandler(func(*natsgo.Conn) { p.report(report{Kind: reportReconnected}) }))
	if err != nil {
		return err
	}
	defer conn.Close()

	var (
		controller *reconciler.Controller[stageKey]
		source     *durableSource
		topic      = requestEvents(p.Topic)
	)
	if p.JetStream {
		controller, source, err = f.overJetStream(conn, topic, p.Resync)
	} else {
		controller, err = f.overCoreNATS(conn, topic, p.Resync)
	}
	if err != nil {
		return err
	}
	go p.count(ctx, controller, source)
	return controller.Start(ctx)
}

// count reports how the controller is doing from time to time.
func (p *process) count(
	ctx context.Context, controller *reconciler.Controller[stageKey], source *durableSource,
) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		r := report{Kind: reportCounts}
		if source != nil {
			s := source.Status(0)
			r.Owed, r.Redelivered = controller.Stats().Owed, s.Counts.Redelivered
		}
		p.report(r)
	}
}
