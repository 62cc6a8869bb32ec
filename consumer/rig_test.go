package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// The stream and the durable of most tests.
const (
	stream  = "ORDERS"
	durable = "worker"
	subject = "orders.>"
)

// ackWait is the AckWait of tests whose Config does not say: short, and long enough for a slow machine.
const ackWait = time.Second

// rig is a server with the stream on it, and ways to look at it that the code under test has no part in.
type rig struct {
	t   testing.TB
	srv *natstest.Server
	js  jetstream.JetStream
}

func newRig(t testing.TB, opts ...natstest.Option) *rig {
	t.Helper()
	r := &rig{t: t, srv: natstest.Start(t, opts...)}
	r.js = r.srv.JetStream()
	r.makeStream()
	return r
}

func (r *rig) makeStream() {
	r.t.Helper()
	_, err := r.js.CreateStream(r.ctx(), jetstream.StreamConfig{Name: stream, Subjects: []string{subject}})
	r.check("create stream", err)
}

func (r *rig) check(what string, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

func (r *rig) ctx() context.Context { return deadline(r.t) }

// publish stores events first, first+1, … last, each with its number as payload. A server that is busy with
// a stream's deletion may lose one: it is asked again.
func (r *rig) publish(first, last int) {
	r.t.Helper()
	for i := first; i <= last; i++ {
		natstest.Eventually(r.t, fmt.Sprintf("event %d is stored", i), natstest.Patience, func() error {
			ctx, cancel := context.WithTimeout(r.ctx(), 2*time.Second)
			defer cancel()
			_, err := r.js.Publish(ctx, fmt.Sprintf("orders.created.%d", i), fmt.Append(nil, i),
				jetstream.WithMsgID(strconv.Itoa(i)))
			return err
		})
	}
}

func (r *rig) info() *jetstream.ConsumerInfo {
	r.t.Helper()
	return natstest.ConsumerInfo(r.t, r.js, stream, durable)
}

func (r *rig) deleteDurable() {
	r.t.Helper()
	r.check("delete consumer", r.js.DeleteConsumer(r.ctx(), stream, durable))
}

func (r *rig) deleteStream() {
	r.t.Helper()
	r.check("delete stream", r.js.DeleteStream(r.ctx(), stream))
}

func (r *rig) settled() {
	r.t.Helper()
	natstest.WaitSettled(r.t, r.js, stream, durable)
}

// ackPending waits until so many messages are unsettled at the server.
func (r *rig) ackPending(n int) {
	r.t.Helper()
	natstest.Eventually(r.t, fmt.Sprintf("%d unsettled", n), natstest.Patience, func() error {
		if got := r.info().NumAckPending; got != n {
			return fmt.Errorf("%d are", got)
		}
		return nil
	})
}

// replica is one consumer with a connection of its own through a proxy of its own, whose wire is watched.
type replica struct {
	*rig
	*desk
	c     *consumer.Consumer
	conn  *nats.Conn
	proxy *natstest.Proxy
	wire  *natstest.Witness
	pulls *natstest.PullWatch
	log   *journal
}

type setup struct {
	cfg    consumer.Config
	before []func(*consumer.Consumer)
	desk   *desk
	conn   []nats.Option
}

func with(edit func(*consumer.Config)) func(*setup) {
	return func(s *setup) { edit(&s.cfg) }
}

func before(f func(*consumer.Consumer)) func(*setup) {
	return func(s *setup) { s.before = append(s.before, f) }
}

func work(f func(*consumer.Message)) func(*setup) {
	return func(s *setup) { s.desk.work = f }
}

// ack is the Handler that has nothing to do.
var ack = work(func(m *consumer.Message) { m.Ack() })

var (
	hurry = before(consumer.Hurry)
	bind  = with(func(cfg *consumer.Config) { cfg.Bind = true })
)

func wait(d time.Duration) func(*setup) {
	return with(func(cfg *consumer.Config) { cfg.AckWait = d })
}

func most(n int) func(*setup) {
	return with(func(cfg *consumer.Config) { cfg.MaxAckPending = n })
}

// holds limits how many messages are held. With as many held, nothing is asked for.
func holds(n int) func(*setup) {
	return before(func(c *consumer.Consumer) { c.SetLimit(n) })
}

// mute makes heartbeats, or whatever else begins with a prefix, fail while it is set.
type mute struct {
	on     atomic.Bool
	prefix string
}

func (m *mute) option() func(*setup) {
	return before(func(c *consumer.Consumer) {
		consumer.Intercept(c, func(_ string, data []byte) error {
			if m.on.Load() && strings.HasPrefix(string(data), m.prefix) {
				return errMuted
			}
			return nil
		})
	})
}

var errMuted = errors.New("muted by the test")

// replica opens and starts one.
func (r *rig) replica(opts ...func(*setup)) *replica {
	r.t.Helper()
	p, err := r.open(opts...)
	r.check("open", err)
	r.check("start", p.c.Start(p.desk))
	return p
}

// open opens one; it is closed at cleanup.
func (r *rig) open(opts ...func(*setup)) (*replica, error) {
	r.t.Helper()
	p := &replica{rig: r, proxy: natstest.NewProxy(r.t, r.srv.Addr()), log: new(journal)}
	s := setup{desk: new(desk), cfg: consumer.Config{
		Subjects: []string{subject}, Durable: durable, AckWait: ackWait, Logger: slog.New(p.log),
	}}
	for _, opt := range opts {
		opt(&s)
	}
	p.desk = s.desk
	p.wire = p.proxy.Watch(stream, s.cfg.Durable)
	p.pulls = p.proxy.Pulls(stream, s.cfg.Durable)
	p.conn = natstest.Connect(r.t, p.proxy.URL(), s.conn...)
	js, err := jetstream.New(p.conn)
	r.check("jetstream", err)
	if p.c, err = consumer.Open(r.ctx(), js, s.cfg); err != nil {
		return nil, err
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what is not over by now is not waited for
		_ = p.c.Close(ctx)
		if r.t.Failed() {
			r.t.Logf("logged by %s:\n%s", s.cfg.Durable, strings.Join(p.log.all(), "\n"))
		}
	})
	for _, f := range s.before {
		f(p.c)
	}
	return p, nil
}

// beats waits until so many more heartbeats were sent.
func (p *replica) beats(n int) {
	p.t.Helper()
	at := len(p.wire.All())
	p.wire.WaitFor(p.t, fmt.Sprintf("%d more heartbeats", n), func(seen []natstest.Settlement) bool {
		for ; at < len(seen); at++ {
			if seen[at].Kind == natstest.InProgress {
				n--
			}
		}
		return n <= 0
	})
}

// wasRecovered waits until the Handler was told so n times.
func (p *replica) wasRecovered(n int) {
	p.t.Helper()
	natstest.Until(p.t, fmt.Sprintf("recovered %d times", n), natstest.Patience, func() bool {
		return len(p.recoveries()) >= n
	})
}

// unhealthy and healthy wait for what the consumer says of itself.
func (p *replica) unhealthy() (err error) {
	p.t.Helper()
	natstest.Until(p.t, "unhealthy", natstest.Patience, func() bool { err = p.c.Healthy(); return err != nil })
	return err
}

func (p *replica) healthy() {
	p.t.Helper()
	natstest.Eventually(p.t, "healthy", natstest.Patience, p.c.Healthy)
}

// status has a status arrive in answer to the last pull, which it returns.
func (p *replica) status(code int, desc string, extra nats.Header) natstest.Pull {
	p.t.Helper()
	pull := p.pulls.Last(p.t)
	p.check("flush", p.conn.FlushTimeout(natstest.Patience)) // so the server knows of the interest
	natstest.InjectStatus(p.t, p.srv.Conn(), pull.Reply, code, desc, extra)
	return pull
}

// lost deletes the durable while nobody is connected to be told. A durable made again in the very moment it is
// deleted may inherit its state from the files of the old one: this one does not.
func (p *replica) lost() {
	p.t.Helper()
	end := p.outage()
	p.unhealthy()
	p.deleteDurable()
	end()
}

// outage cuts the connection and lets no new one through until the end is called.
func (p *replica) outage() (end func()) {
	p.proxy.Refuse(true)
	p.proxy.Cut()
	return func() { p.proxy.Refuse(false) }
}

// only checks that all that was settled of a message is so many of one kind, besides heartbeats.
func (p *replica) only(seq uint64, kind natstest.Kind, least, greatest int) {
	p.t.Helper()
	n := 0
	for _, s := range p.wire.Of(seq) {
		switch s.Kind {
		case natstest.InProgress:
		case kind:
			n++
		default:
			p.t.Errorf("sent %s, want nothing but %ss", s, kind)
		}
	}
	if n < least || n > greatest {
		p.t.Errorf("%d %ss of %d, want %d to %d", n, kind, seq, least, greatest)
	}
}

// desk is a Handler that keeps what it is handed.
type desk struct {
	work  func(*consumer.Message) // called by Handle, if set
	again func()                  // called by Recovered, if set

	mu        sync.Mutex
	handed    []*consumer.Message
	ends      map[*consumer.Message][]consumer.Ending
	recovered []string
}

func (d *desk) Handle(m *consumer.Message) {
	d.mu.Lock()
	d.handed = append(d.handed, m)
	d.mu.Unlock()
	if d.work != nil {
		d.work(m)
	}
}

func (d *desk) Ended(m *consumer.Message, how consumer.Ending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ends == nil {
		d.ends = map[*consumer.Message][]consumer.Ending{}
	}
	d.ends[m] = append(d.ends[m], how)
}

func (d *desk) Recovered(reason string) {
	if d.again != nil {
		d.again()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recovered = append(d.recovered, reason)
}

func (d *desk) all() []*consumer.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.handed)
}

// sequences of what was handed, in that order.
func (d *desk) sequences() []uint64 {
	var list []uint64
	for _, m := range d.all() {
		list = append(list, m.Sequence())
	}
	return list
}

func (d *desk) recoveries() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.recovered)
}

func (d *desk) endings(m *consumer.Message) []consumer.Ending {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.ends[m])
}

// got waits until n messages were handed to the Handler and returns them.
func (p *replica) got(n int) []*consumer.Message {
	p.t.Helper()
	natstest.Eventually(p.t, fmt.Sprintf("%d messages handed out", n), natstest.Patience, func() error {
		if got := p.sequences(); len(got) < n {
			return fmt.Errorf("%d were: %v", len(got), got)
		}
		return nil
	})
	return p.all()
}

// ended waits until each of the messages has ended and checks that it did so once, and how.
func (p *replica) ended(how consumer.Ending, ms ...*consumer.Message) {
	p.t.Helper()
	for _, m := range ms {
		natstest.Until(p.t, fmt.Sprintf("message %d has ended", m.Sequence()), natstest.Patience,
			func() bool { return len(p.endings(m)) > 0 })
		if got := p.endings(m); len(got) != 1 || got[0] != how {
			p.t.Errorf("message %d ended with %v, want %v", m.Sequence(), got, how)
		}
	}
}

// journal is a slog.Handler that keeps what is logged.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (*journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler     { return j }
func (j *journal) WithGroup(string) slog.Handler          { return j }

func (j *journal) Handle(_ context.Context, rec slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", rec.Time.Format("05.000"), rec.Level, rec.Message)
	rec.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s", a)
		return true
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, b.String())
	return nil
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// containing are the lines that hold all of parts.
func (j *journal) containing(parts ...string) []string {
	return slices.DeleteFunc(j.all(), func(line string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	})
}

// deadline is a context that ends with the test or its patience.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), natstest.Patience)
	t.Cleanup(cancel)
	return ctx
}
