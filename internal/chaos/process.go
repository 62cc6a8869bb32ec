//go:build unix

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/internal/history"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// replicaVariable holds the settings of a process that is to be a replica.
const replicaVariable = "JSOURCE_CHAOS_REPLICA"

// settings are what a replica is told.
type settings struct {
	URL           string
	Table         string
	Keys          int
	Replicas      int // of the stream
	AckWait       time.Duration
	MaxAckPending int
	HoldLimit     time.Duration
	Supersede     bool
	MaxAttempts   int
	Ping          time.Duration // how often its connection pings
	Grace         time.Duration
	Seed          uint64
	Number        uint64
}

// RunChild runs this process as what a run has started it for, a replica or a server, and exits; in any other
// process it returns at once. Call it first thing in main and TestMain.
func RunChild() {
	runServer()
	runReplica()
}

func runReplica() {
	text, ok := os.LookupEnv(replicaVariable)
	if !ok {
		return
	}
	go func() {
		// The parent holds the other end open and never writes: it is gone when this ends.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	signal.Ignore(os.Interrupt) // meant for the parent
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		fmt.Fprintln(os.Stderr, "settings:", err)
		os.Exit(2)
	}
	p := &process{settings: s, pipe: os.NewFile(3, "reports"), random: rand.New(rand.NewPCG(s.Seed, s.Number))}
	if err := p.run(); err != nil {
		fmt.Fprintln(os.Stderr, "stopped:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process is a replica, in its own process.
type process struct {
	settings settings
	table    *table
	attempts atomic.Uint64

	mu     sync.Mutex
	pipe   *os.File
	random *rand.Rand
}

// report writes one line, whole, before it returns: a kill that comes later does not lose it.
func (p *process) report(format string, args ...any) {
	line := fmt.Appendf(nil, format+"\n", args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.pipe.Write(line); err != nil {
		os.Exit(3)
	}
}

// roll reports whether something happens that happens so often in a thousand.
func (p *process) roll(share uint64) bool { return share > 0 && p.number(1000) < share }

func (p *process) number(n uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.Uint64N(n)
}

// rages reports whether that weather strikes now.
func (p *process) rages(w weather) bool { return p.roll(p.table.load(int(w))) }

func (p *process) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	if p.table, err = openTable(p.settings.Table, p.settings.Keys); err != nil {
		return err
	}
	conn, err := natsgo.Connect(p.settings.URL, natsgo.MaxReconnects(-1), natsgo.ReconnectWait(50*time.Millisecond),
		natsgo.RetryOnFailedConnect(true), natsgo.IgnoreDiscoveredServers(), natsgo.PingInterval(p.settings.Ping),
		natsgo.Timeout(time.Second))
	if err != nil {
		return err
	}
	defer conn.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	slog.SetDefault(log)
	src := jsource.TryMapped(conn, topic, p.mapper).
		OnCreate(func(i item) bool { return !i.Skip }).
		OnUpdate(func(_, i item) bool { return !i.Skip }).
		OnDelete(func(i item) bool { return !i.Skip }).
		Durable(durableName).Stream(streamConfig(p.settings.Replicas)).
		DeadLetters(jetstream.StreamConfig{Name: deadName, Replicas: p.settings.Replicas}).
		AckWait(p.settings.AckWait).MaxAckPending(p.settings.MaxAckPending).HoldLimit(p.settings.HoldLimit).
		MaxAttempts(p.settings.MaxAttempts)
	if p.settings.Supersede {
		src.Supersede()
	}
	c, err := reconciler.New[string]("chaos").Watch(src).Workers(8).Grace(p.settings.Grace).
		RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 500*time.Millisecond)).
		Func(p.reconcile)
	if err != nil {
		return err
	}
	go p.watch(src)
	err = c.Start(ctx)
	if st := src.Status(0); err == nil || ctx.Err() != nil {
		log.Info("counted", "status", fmt.Sprintf("%+v", st.Counts), "stats", fmt.Sprintf("%+v", c.Stats()))
	}
	return err
}

// watch reports when the source has forgotten what it held.
func (p *process) watch(src *jsource.Source[string, item, string]) {
	var last uint64
	for range time.Tick(20 * time.Millisecond) {
		if n := src.Status(0).Counts.Forgotten; n > last {
			last = n
			p.report("f %d", now())
		}
	}
}

var errWeather = errors.New("the weather is bad")

// mapper maps an event to what it owes.
func (p *process) mapper(_ context.Context, e nats.Event[string, item]) ([]string, error) {
	begin, i := now(), itemOf(&e)
	var key int
	if _, err := fmt.Sscanf(e.Key, "k%d", &key); err != nil {
		return nil, err
	}
	bad, worse := p.rages(mapFail), p.rages(mapBlowUp)
	p.report("m %d %d %d %t", i.Call, begin, now(), bad || worse)
	switch {
	case worse:
		panic(errWeather)
	case bad:
		return nil, errWeather
	}
	return owes(key, i.Change), nil
}

// reconcile looks at the newest change of a request, and does as the weather says.
func (p *process) reconcile(ctx context.Context, req string) (res reconciler.Result, err error) {
	n := p.attempts.Add(1)
	p.report("b %d %s %d", n, req, now())
	slot, err := p.table.slot(req)
	if err != nil {
		return res, reconciler.TerminalError(err)
	}
	seen := p.table.load(slot)
	outcome := p.work(ctx, seen)
	switch outcome {
	case history.Unfinished:
		res.Unfinished, res.RequeueAfter = true, 20*time.Millisecond
	case history.Failed:
		err = errWeather
	case history.Terminal:
		err = reconciler.TerminalError(errWeather)
	case history.Success:
		if p.roll(5) {
			res.RequeueAfter = 50 * time.Millisecond
		}
	}
	p.report("e %d %s %d %d", n, outcome, seen, now())
	if outcome == history.Panicked {
		panic(errWeather)
	}
	return res, err
}

// work takes its time and says how it went.
func (p *process) work(ctx context.Context, seen uint64) history.Outcome {
	took := time.Duration(p.number(3000)) * time.Microsecond
	switch {
	case p.rages(hang):
		took = p.settings.AckWait * time.Duration(10+p.number(20)) / 10
	case p.rages(slow):
		took = time.Duration(50+p.number(250)) * time.Millisecond
	case p.roll(20):
		took = time.Duration(p.number(40)) * time.Millisecond
	}
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return history.Failed
	}
	switch {
	case p.rages(fail):
		return history.Failed
	case p.rages(blowUp):
		return history.Panicked
	case dies(seen) && p.rages(terminal):
		return history.Terminal
	case p.rages(unfinish):
		return history.Unfinished
	}
	return history.Success
}
