//go:build unix

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/history"
	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
)

// grace is the replicas' grace period.
const grace = time.Second

// world is everything in a run: servers, replicas, load. One goroutine drives it.
type world struct {
	tb      testing.TB
	cfg     Config
	began   time.Duration
	rec     *history.Recorder
	table   *table
	path    string // of the table
	server  *serverProcess
	cluster *natstest.Cluster
	js      jetstream.JetStream // the parent's own, past all wires
	load    *load
	wire    *wire // the load's

	seats  [slots]*replica // who is there now, nil if nobody
	all    []*replica
	made   int
	rages  [weathers]int // how many faults want that weather
	steps  []step
	faults map[FaultKind]int
	missed map[FaultKind]int // faults that found nothing to hit
	last   Fault
	notes  []note
}

// note is something that replicas did by themselves.
type note struct {
	bad  bool
	text string
}

// build starts the servers, the load's connection and the first replicas.
func build(tb testing.TB, cfg Config) *world {
	w := &world{
		tb: tb, cfg: cfg, began: now(), rec: history.NewRecorder(cfg.AckWait, cfg.slack()),
		path: filepath.Join(tb.TempDir(), "table"), faults: map[FaultKind]int{}, missed: map[FaultKind]int{},
	}
	w.rec.Change(func(h *history.History) { h.HoldLimit, h.Supersede = cfg.HoldLimit > 0, cfg.Supersede })
	var err error
	if w.table, err = openTable(w.path, cfg.Keys); err != nil {
		tb.Fatalf("table: %v", err)
	}
	tb.Cleanup(w.table.close)
	if cfg.Kind == Single {
		w.server = startServer(tb, cfg.Logs)
		js, err := jetstream.New(natstest.Connect(tb, "nats://"+w.server.addr()))
		if err != nil {
			tb.Fatalf("jetstream: %v", err)
		}
		w.js = js
	} else {
		w.cluster = natstest.StartCluster(tb, 3)
		w.js = w.cluster.JetStream()
	}
	ctx, cancel := context.WithTimeout(context.Background(), natstest.Patience)
	defer cancel()
	if _, err := w.js.CreateStream(ctx, streamConfig(cfg.replicas())); err != nil {
		tb.Fatalf("making the stream: %v", err)
	}
	w.wire = newWire(tb, w.target(cfg.Seed), nil)
	conn := natstest.Connect(tb, w.wire.url(), natsgo.IgnoreDiscoveredServers(), natsgo.PingInterval(time.Second))
	pub, err := jsource.NewPublisher(conn, jsource.PublisherStream(streamConfig(cfg.replicas())))
	if err != nil {
		tb.Fatalf("publisher: %v", err)
	}
	w.load = &load{pub: pub, conn: conn, table: w.table, rec: w.rec, rate: cfg.Rate, garbage: cfg.Garbage, js: w.js, direct: w.js.Conn()}
	for i := range w.seats {
		w.start(i)
	}
	return w
}

// target says where a wire's next connection goes: to any server that runs.
func (w *world) target(seed uint64) func() string {
	if w.server != nil {
		return w.server.addr
	}
	random := rand.New(rand.NewPCG(seed, 0x77697265))
	lock := make(chan struct{}, 1) // a mutex that go vet lets us capture
	return func() string {
		lock <- struct{}{}
		defer func() { <-lock }()
		servers := w.cluster.Servers()
		from := random.IntN(len(servers))
		for i := range servers {
			if s := servers[(from+i)%len(servers)]; s.Running() {
				return s.Addr()
			}
		}
		return servers[from].Addr()
	}
}

// start starts a replica in a seat, unless somebody sits there who was not asked to leave.
func (w *world) start(seat int) {
	if r := w.seats[seat]; r != nil && !r.gone() && r.wanted == "" {
		return
	}
	w.made++
	name := fmt.Sprintf("%d.%d", seat, w.made)
	seed := w.cfg.Seed<<16 | uint64(w.made)
	wire := newWire(w.tb, w.target(seed), newObserver(name, w.rec))
	ping := 2 * time.Minute // never notices that a connection is stalled
	if seat == slots-1 {
		ping = time.Second // notices soon, and makes another
	}
	r, err := startReplica(w.tb, name, settings{
		Table: w.path, Keys: w.cfg.Keys, Replicas: w.cfg.replicas(), AckWait: w.cfg.AckWait, MaxAckPending: w.cfg.MaxAckPending,
		HoldLimit: w.cfg.HoldLimit, Supersede: w.cfg.Supersede, MaxAttempts: w.cfg.MaxAttempts, Ping: ping, Grace: grace, Seed: w.cfg.Seed, Number: uint64(w.made),
	}, wire, w.rec, w.cfg.Logs)
	if err != nil {
		w.tb.Fatalf("starting replica %s: %v", name, err)
	}
	w.seats[seat] = r
	w.all = append(w.all, r)
}

// alive returns the seat from slot on in which somebody sits, -1 if there is none.
func (w *world) alive(slot int) int {
	for i := range slots {
		seat := (slot + i) % slots
		if r := w.seats[seat]; r != nil && !r.gone() && r.wanted == "" {
			return seat
		}
	}
	return -1
}

// notice looks for replicas that have ended, and starts those again that ended by themselves.
func (w *world) notice() {
	for seat, r := range w.seats {
		if r != nil && r.gone() && r.wanted == "" {
			w.start(seat)
		}
	}
	for _, r := range w.all {
		if !r.noticed && r.gone() {
			r.noticed = true
			w.judge(r)
		}
	}
}

// judge notes how a replica ended, if that was not as it should.
func (w *world) judge(r *replica) {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.log.String()
	why := log
	if i := strings.LastIndex(log, "stopped: "); i >= 0 {
		why = strings.TrimSpace(log[i:])
	}
	switch {
	case r.wanted == "killed", r.err != nil && r.err.Error() == "signal: terminated": // before it could take notice
	case strings.Contains(log, "DATA RACE"), strings.Contains(log, "fatal error: "), strings.Contains(log, "\npanic: "),
		strings.HasPrefix(log, "panic: "):
		w.note(true, "replica %s crashed (%v):\n%s", r.name, r.err, log)
	case r.wanted == "terminated":
		if r.err != nil {
			w.note(false, "replica %s stopped with %v: %s", r.name, r.err, why)
		}
		if r.took > tooLong {
			w.note(true, "replica %s took %v to stop", r.name, r.took)
		}
	case strings.Contains(why, ": starting source"):
		w.note(false, "replica %s could not start: %s", r.name, why)
	default:
		w.note(true, "replica %s ended by itself (%v): %s", r.name, r.err, why)
	}
}

// tooLong is how long a stop may take: the grace period, the time for attempts to return once they are
// cancelled, and for confirmations to come in, or to be given up.
const tooLong = 15 * time.Second

func (w *world) note(bad bool, format string, args ...any) {
	w.notes = append(w.notes, note{bad: bad, text: fmt.Sprintf(format, args...)})
}

// since is the time since the run began.
func (w *world) since() time.Duration { return now() - w.began }

func (w *world) printf(format string, args ...any) {
	fmt.Fprintf(w.cfg.Out, "%6.1fs  %s\n", w.since().Seconds(), fmt.Sprintf(format, args...))
}

// setWeather lets a weather rage, or calms it once nobody wants it any more.
func (w *world) setWeather(kind weather, on bool) {
	if on {
		w.rages[kind]++
	} else {
		w.rages[kind]--
	}
	share := uint64(0)
	if w.rages[kind] > 0 {
		share = kind.share()
	}
	w.table.store(int(kind), share)
}
