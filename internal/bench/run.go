package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/uuid"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/reconciler/nats"
)

// run is one contender on one Spec.
type run struct {
	spec      *Spec
	contender *Contender
	probe     *Probe
	servers   servers
	wire      *wire
	topic     Topic
	config    jetstream.StreamConfig
	durable   string
	js        jetstream.JetStream // on a connection of the benchmark's own
	work      work
	profile   string // the file for it, or ""
	faultAt   int64

	closers []func() error
}

// timelineParts is how many points a time line has.
const timelineParts = 60

// Measure runs c on s. begun is called when it has started to consume: what is done before is getting ready.
func Measure(ctx context.Context, c *Contender, s *Spec, begun func()) (*Result, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	return measure(ctx, c, s, "", func(*Probe) { begun() })
}

// measure runs c, and writes a CPU profile to the file profile unless that is empty. watch is told of the Probe once there is something to see.
func measure(ctx context.Context, c *Contender, s *Spec, profile string, watch func(*Probe)) (_ *Result, err error) {
	r := &run{spec: s, contender: c, probe: newProbe(s), wire: newWire(), profile: profile}
	defer func() {
		for i := len(r.closers) - 1; i >= 0; i-- {
			err = errors.Join(err, r.closers[i]())
		}
		if err != nil {
			err = fmt.Errorf("measuring %s: %w", c.Name, err)
		}
	}()
	if r.work, err = parseWork(s.Reconcile); err != nil {
		return nil, err
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	return r.perform(ctx, watch)
}

// prepare starts the servers and makes the stream.
func (r *run) prepare(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "jsource-bench-")
	if err != nil {
		return fmt.Errorf("making a folder for the streams: %w", err)
	}
	r.closers = append(r.closers, func() error { return os.RemoveAll(dir) })
	if r.servers, err = startServers(r.spec, filepath.Join(dir, "nats")); err != nil {
		return err
	}
	r.closers = append(r.closers, r.servers.close)

	name := "jsource-bench-" + uuid.NewString()[:8]
	r.topic = nats.NewTopic[string, Row](name + ".stages")
	r.durable = name
	if r.contender.Core {
		return nil
	}
	conn, err := r.connect("control")
	if err != nil {
		return err
	}
	if r.js, err = jetstream.New(conn); err != nil {
		return err
	}
	r.config = consumer.StreamConfig(r.topic.Subject())
	r.config.Replicas = r.spec.Replicas
	if r.spec.Storage == memoryStorage {
		r.config.Storage = jetstream.MemoryStorage
	}
	return r.makeStream(ctx)
}

// makeStream makes the stream; a cluster that has just started may need a moment for it.
func (r *run) makeStream(ctx context.Context) error {
	deadline := time.Now().Add(serverReady)
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := r.js.CreateStream(try, r.config)
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil || time.Now().After(deadline) || r.spec.Replicas == 1 {
			return fmt.Errorf("making stream %q: %w", r.config.Name, err)
		}
		wait(ctx, 200*time.Millisecond)
	}
	if r.spec.URL != "" {
		r.closers = append(r.closers, r.removeStreams)
	}
	return nil
}

// removeStreams leaves a server of somebody's as it was.
func (r *run) removeStreams() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := r.js.DeleteStream(ctx, r.config.Name)
	// Where jsource keeps dead letters.
	if e := r.js.DeleteStream(ctx, r.config.Name+"-dead"); !errors.Is(e, jetstream.ErrStreamNotFound) {
		err = errors.Join(err, e)
	}
	if err != nil {
		return fmt.Errorf("removing the streams of the run, %q and %[1]q-dead: %w", r.config.Name, err)
	}
	return nil
}

// connect connects to the servers and never gives up; it is closed at the end.
func (r *run) connect(what string, opts ...natsgo.Option) (*natsgo.Conn, error) {
	opts = append(opts,
		natsgo.Name("jsource bench: "+what),
		natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(50*time.Millisecond),
		natsgo.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond),
		natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {})) // what is lost is counted
	conn, err := natsgo.Connect(r.servers.url(), opts...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the NATS server: %w", err)
	}
	r.closers = append(r.closers, func() error {
		conn.Close()
		return nil
	})
	return conn, nil
}

// perform is the run itself.
func (r *run) perform(ctx context.Context, watch func(*Probe)) (*Result, error) {
	s, p := r.spec, r.probe
	conn, err := r.connect("contender", natsgo.SetCustomDialer(r.wire))
	if err != nil {
		return nil, err
	}
	conns := make([]*natsgo.Conn, s.Publishers)
	for i := range conns {
		if conns[i], err = r.connect("publisher"); err != nil {
			return nil, err
		}
	}
	load, err := newLoad(s, r.topic, p, conns, r.contender.Traced)
	if err != nil {
		return nil, err
	}
	if !r.contender.Core {
		if err := r.prepareStored(ctx, load); err != nil {
			return nil, err
		}
	}

	runtime.GC() // what was there before is none of the run's
	unprofile, err := startProfile(r.profile)
	if err != nil {
		return nil, err
	}
	defer unprofile()
	serverBefore, err := r.servers.cpu()
	if err != nil {
		return nil, err
	}
	before, most := usedNow(), watchPeak()
	in, out, messages := r.wire.in.Load(), r.wire.out.Load(), conn.Stats().OutMsgs
	reads, writes := r.wire.reads.Load(), r.wire.writes.Load()
	stop, err := r.contender.Start(ctx, &Intake{
		Conn: conn, Topic: r.topic, Stream: r.config, Durable: r.durable,
		Workers: s.Workers, MaxAckPending: s.MaxAckPending, AckWait: s.AckWait, Probe: p, work: r.work,
	})
	if err != nil {
		most.end()
		return nil, err
	}
	watch(p)
	end, err := r.play(ctx, load)
	after, memory := usedNow(), most.end()
	r.hearAcks(ctx)
	res := r.result(end)
	n := float64(s.Events)
	res.CPUMicrosPerEvent = float64(after.cpu-before.cpu) / float64(time.Microsecond) / n
	res.AllocsPerEvent = float64(after.objects-before.objects) / n
	res.AllocBytesPerEvent = float64(after.bytes-before.bytes) / n
	res.PeakMemory = max(memory, before.memory) - before.memory
	res.WireIn = float64(r.wire.in.Load()-in) / n
	res.WireOut = float64(r.wire.out.Load()-out) / n
	res.Reads = float64(r.wire.reads.Load()-reads) / n
	res.Writes = float64(r.wire.writes.Load()-writes) / n
	res.MessagesOut = float64(conn.Stats().OutMsgs-messages) / n
	serverAfter, e := r.servers.cpu()
	res.ServerMicros = float64(serverAfter-serverBefore) / float64(time.Microsecond) / n
	if err == nil && !r.contender.Core {
		res.Settled, err = r.settledUpTo(ctx) // before the end: there are clients that delete their durable then
	}
	return res, errors.Join(err, e, stop())
}

// prepareStored fills the stream, or gets ready to see the acks.
func (r *run) prepareStored(ctx context.Context, load *load) error {
	if r.spec.Rate == 0 {
		stream, err := r.js.Stream(ctx, r.config.Name)
		if err != nil {
			return fmt.Errorf("looking up stream %q: %w", r.config.Name, err)
		}
		return load.store(ctx, stream)
	}
	conn, err := r.connect("witness")
	if err != nil {
		return err
	}
	return witness(conn, r.config.Name, r.durable, r.probe)
}

// hearAcks lets the witness hear what the server has taken in: it may say so before. In an outage it can miss some.
func (r *run) hearAcks(ctx context.Context) {
	if r.contender.Core || r.spec.Rate == 0 || r.spec.Fault != faultNone {
		return
	}
	deadline := time.Now().Add(storeWithin)
	for r.probe.acks.Load() < int64(r.spec.Events) && ctx.Err() == nil && time.Now().Before(deadline) {
		wait(ctx, time.Millisecond)
	}
}

// result is what the Probe has seen, up to end.
func (r *run) result(end int64) *Result {
	s, p := r.spec, r.probe
	begin := p.first.Load()
	res := &Result{
		Contender: r.contender.Name, Promise: r.contender.Promise, Unsafe: r.contender.Unsafe, Core: r.contender.Core,
		Spec: *s, Covered: int(p.done.Load()), HandOuts: p.received.Load(), Attempts: p.attempts.Load(), Acks: p.acks.Load(),
		Seconds: float64(end-begin) / 1e9, Timeline: p.timeline(begin, end, timelineParts),
	}
	res.Lost = s.Events - res.Covered
	res.AttemptsPerEvent = float64(res.Attempts) / float64(s.Events)
	if res.Seconds > 0 {
		res.EventsPerSecond = float64(res.Covered) / res.Seconds
	}
	if r.faultAt != 0 {
		res.FaultAt = float64(r.faultAt-begin) / 1e9
	}
	if s.Rate > 0 {
		res.latencies(p)
	}
	return res
}
