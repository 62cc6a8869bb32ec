package jsource_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// widget is the resource of the tests on stopping, crashing and faults, and of the conformance suite.
type widget struct {
	Version int    `json:"version"`
	Color   string `json:"color,omitempty"`
}

type widgetSource = jsource.Source[string, widget, string]

// The topic, the controller, and the names that follow from them.
var widgets = nats.NewTopic[string, widget]("shop.widgets")

const (
	keeper        = "keeper"
	widgetStream  = "shop_widgets"
	widgetDurable = "keeper-shop_widgets"
)

// soon is what T1 promises a replica that runs already: everything that another one gave back. With an
// AckWait of 30 seconds it shows that nothing was left to redelivery.
const soon = time.Second

// world is a server with the topic on it, and the witness that judges.
type world struct {
	tb      testing.TB
	srv     *natstest.Server
	js      jetstream.JetStream
	pub     *jsource.Publisher
	witness *natstest.Witness
	log     *slog.Logger
}

// newWorld also judges, when the test has ended, what each replica said of each message.
func newWorld(tb testing.TB, opts ...natstest.Option) *world {
	tb.Helper()
	w := &world{tb: tb, srv: natstest.Start(tb, opts...), log: slog.New(slog.NewTextHandler(testLog(tb), nil))}
	w.js = w.srv.JetStream()
	var err error
	if w.pub, err = jsource.NewPublisher(w.srv.Conn()); err != nil {
		tb.Fatal(err)
	}
	w.witness = natstest.Watch(tb, w.srv.Conn(), widgetStream, widgetDurable)
	tb.Cleanup(func() {
		w.witness.Sync(tb)
		judgeVerdicts(tb, w.witness)
	})
	return w
}

// newUnwatched is a world without a witness, which costs time where messages are many.
func newUnwatched(tb testing.TB) *world {
	tb.Helper()
	w := &world{tb: tb, srv: natstest.Start(tb), log: slog.New(slog.NewTextHandler(testLog(tb), nil))}
	w.js = w.srv.JetStream()
	var err error
	if w.pub, err = jsource.NewPublisher(w.srv.Conn()); err != nil {
		tb.Fatal(err)
	}
	return w
}

// judgeVerdicts finds what rule S3 forbids: a replica that, after a verdict, says anything else of the same
// message. Where the answer to a settlement goes tells the replica.
func judgeVerdicts(tb testing.TB, witness *natstest.Witness) {
	tb.Helper()
	type told struct {
		replica string
		seq     uint64
		stored  int64
	}
	verdicts := map[told]natstest.Kind{}
	// One answer stands for verdicts that were sent together. Whose they are, others of the same copy may tell.
	owner := map[uint64]string{}
	for _, s := range witness.All() {
		if replica, _, ok := strings.Cut(s.Reply, ".a."); ok {
			owner[s.ConsumerSeq] = replica
		}
	}
	for _, s := range witness.All() {
		if s.Kind == natstest.InProgress {
			continue
		}
		replica := owner[s.ConsumerSeq]
		if replica == "" {
			replica = fmt.Sprintf("whoever has copy %d", s.ConsumerSeq)
		}
		id := told{replica, s.StreamSeq, s.Stored.UnixNano()}
		if was, decided := verdicts[id]; decided && was != s.Kind {
			tb.Errorf("%v: after its %s, from the same replica", s, was)
		}
		if s.Verdict() {
			verdicts[id] = s.Kind
		}
	}
}

// publish publishes that each key was created, and returns where the stream keeps that.
func (w *world) publish(keys ...string) []jsource.Receipt {
	w.tb.Helper()
	receipts := make([]jsource.Receipt, len(keys))
	for i, key := range keys {
		var err error
		if receipts[i], err = jsource.PublishCreated(w.tb.Context(), w.pub, widgets, key, widget{}); err != nil {
			w.tb.Fatal(err)
		}
	}
	return receipts
}

// numbered returns n keys.
func numbered(prefix string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%04d", prefix, i)
	}
	return keys
}

// unsettled waits until the server has handed out n messages that nobody has settled.
func (w *world) unsettled(n int) {
	w.tb.Helper()
	natstest.Eventually(w.tb, fmt.Sprintf("%d messages handed out", n), natstest.Patience, func() error {
		if info := w.info(); info.NumAckPending != n {
			return fmt.Errorf("%d unsettled, %d not handed out", info.NumAckPending, info.NumPending)
		}
		return nil
	})
}

// waitHeld waits until the replica has received n messages that have no verdict: what the server says it
// handed out may be under way for a while.
func waitHeld(tb testing.TB, src *widgetSource, n int) {
	tb.Helper()
	natstest.Eventually(tb, fmt.Sprintf("%d messages held", n), natstest.Patience, func() error {
		if held := src.Status(0).Held; held != n {
			return fmt.Errorf("%d are", held)
		}
		return nil
	})
}

func (w *world) info() *jetstream.ConsumerInfo {
	w.tb.Helper()
	return natstest.ConsumerInfo(w.tb, w.js, widgetStream, widgetDurable)
}

func (w *world) settled() {
	w.tb.Helper()
	natstest.WaitSettled(w.tb, w.js, widgetStream, widgetDurable)
}

// said is what the witness saw of one message, heartbeats left out, in short.
func (w *world) said(seq uint64) string {
	w.tb.Helper()
	w.witness.Sync(w.tb)
	var said []string
	for _, s := range w.witness.Of(seq) {
		if s.Kind != natstest.InProgress {
			said = append(said, fmt.Sprintf("%s of delivery %d", s.Kind, s.Deliveries))
		}
	}
	return strings.Join(said, ", ")
}

// expectSaid checks what was said of one message.
func (w *world) expectSaid(seq uint64, want string) {
	w.tb.Helper()
	if got := w.said(seq); got != want {
		w.tb.Errorf("of sequence %d the witness saw %q, want %q", seq, got, want)
	}
}

// ledger is a Reconciler that notes its attempts. Those on requests that are held wait until they are
// released or cancelled.
type ledger struct {
	do reconciler.Func[string] // what an attempt does then; nil: it succeeds

	mu       sync.Mutex
	attempts []attempt
	gates    map[string]chan struct{}
}

// attempt is one run of the Reconciler.
type attempt struct {
	req   string
	began time.Time
	ended time.Time // zero while it runs
	err   error
}

func (l *ledger) Reconcile(ctx context.Context, req string) (res reconciler.Result, err error) {
	l.mu.Lock()
	n := len(l.attempts)
	l.attempts = append(l.attempts, attempt{req: req, began: time.Now()})
	gate := l.gates[req]
	l.mu.Unlock()
	err = errPanicked
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.attempts[n].ended, l.attempts[n].err = time.Now(), err
	}()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return res, context.Cause(ctx)
		}
	}
	if l.do == nil {
		return res, nil
	}
	return l.do(ctx, req)
}

// hold makes attempts on these requests wait.
func (l *ledger) hold(reqs ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gates == nil {
		l.gates = map[string]chan struct{}{}
	}
	for _, req := range reqs {
		l.gates[req] = make(chan struct{})
	}
}

// release lets attempts on these requests go on, now and in the future.
func (l *ledger) release(reqs ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, req := range reqs {
		close(l.gates[req])
		delete(l.gates, req)
	}
}

// all are the attempts so far, in the order in which they began.
func (l *ledger) all() []attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.attempts)
}

// begun is how many attempts have begun on each request.
func (l *ledger) begun() map[string]int {
	counts := map[string]int{}
	for _, a := range l.all() {
		counts[a.req]++
	}
	return counts
}

// idle reports whether no attempt is running.
func (l *ledger) idle() bool {
	return !slices.ContainsFunc(l.all(), func(a attempt) bool { return a.ended.IsZero() })
}

// waitBegun waits until an attempt has begun on each of the requests.
func (l *ledger) waitBegun(tb testing.TB, reqs ...string) {
	tb.Helper()
	natstest.Eventually(tb, "attempts on all that was asked for", natstest.Patience, func() error {
		return missing(l.begun(), reqs)
	})
}

// waitDone waits until an attempt on each of the requests has succeeded.
func (l *ledger) waitDone(tb testing.TB, reqs ...string) {
	tb.Helper()
	natstest.Eventually(tb, "successes on all that was asked for", natstest.Patience, func() error {
		done := map[string]int{}
		for _, a := range l.all() {
			if !a.ended.IsZero() && a.err == nil {
				done[a.req]++
			}
		}
		return missing(done, reqs)
	})
}

func missing(have map[string]int, want []string) error {
	var lacking []string
	for _, req := range want {
		if have[req] == 0 {
			lacking = append(lacking, req)
		}
	}
	if len(lacking) > 0 {
		return fmt.Errorf("%d of %d are missing, the first is %s", len(lacking), len(want), lacking[0])
	}
	return nil
}

// expectBegun checks how many attempts began, and that each request had one.
func (l *ledger) expectOnce(tb testing.TB, reqs ...string) {
	tb.Helper()
	counts := l.begun()
	for _, req := range reqs {
		if counts[req] != 1 {
			tb.Errorf("%d attempts on %s, want 1", counts[req], req)
		}
		delete(counts, req)
	}
	for req, n := range counts {
		tb.Errorf("%d attempts on %s, want none", n, req)
	}
}

// member is one replica of the controller, inside the test process.
type member struct {
	ledger
	tb      testing.TB
	source  *widgetSource
	ctl     *reconciler.Controller[string]
	running chan struct{} // closed when its sources have started
	cancel  context.CancelFunc
	done    chan struct{} // closed when Start has returned, err
	err     error
}

// memberOf changes how a member is made.
type memberOf func(*settings)

type settings struct {
	conn    *natsgo.Conn
	source  func(*widgetSource)
	sources []reconciler.Source[string] // instead of the source on the topic
	more    []reconciler.Source[string]
	builder func(*reconciler.Builder[string])
	member  *member
}

func through(conn *natsgo.Conn) memberOf { return func(s *settings) { s.conn = conn } }

func withSource(change func(*widgetSource)) memberOf { return func(s *settings) { s.source = change } }

func watching(more ...reconciler.Source[string]) memberOf {
	return func(s *settings) { s.more = append(s.more, more...) }
}

func watchingOnly(srcs ...reconciler.Source[string]) memberOf {
	return func(s *settings) { s.sources = srcs }
}

func built(change func(*reconciler.Builder[string])) memberOf {
	return func(s *settings) { s.builder = change }
}

func workers(n int) memberOf {
	return built(func(b *reconciler.Builder[string]) { b.Workers(n) })
}

func holding(reqs ...string) memberOf { return func(s *settings) { s.member.hold(reqs...) } }

func doing(do reconciler.Func[string]) memberOf { return func(s *settings) { s.member.do = do } }

// join starts a replica and returns when its sources have started. It is stopped at cleanup.
func (w *world) join(opts ...memberOf) *member {
	w.tb.Helper()
	m := w.begin(opts...)
	m.waitRunning()
	return m
}

// begin starts a replica and does not wait.
func (w *world) begin(opts ...memberOf) *member {
	w.tb.Helper()
	m := &member{tb: w.tb, running: make(chan struct{}), done: make(chan struct{})}
	s := settings{member: m}
	for _, opt := range opts {
		opt(&s)
	}
	if s.conn == nil {
		s.conn = w.srv.Conn()
	}
	if s.sources == nil {
		m.source = jsource.Subject(s.conn, widgets)
		if s.source != nil {
			s.source(m.source)
		}
		s.sources = []reconciler.Source[string]{m.source}
	}
	b := reconciler.New[string](keeper).Logger(w.log).Watch(s.sources...).Watch(s.more...).Watch(started(m.running))
	if s.builder != nil {
		s.builder(b)
	}
	var err error
	if m.ctl, err = b.Reconciler(m); err != nil {
		w.tb.Fatal(err)
	}
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(m.done)
		m.err = m.ctl.Start(ctx)
	}()
	w.tb.Cleanup(m.end)
	return m
}

// end stops the replica, however the test went.
func (m *member) end() {
	m.cancel()
	select {
	case <-m.done:
	case <-time.After(natstest.Patience):
		m.tb.Error("the controller does not stop")
	}
}

func (m *member) waitRunning() {
	m.tb.Helper()
	select {
	case <-m.running:
	case <-m.done:
		m.tb.Fatalf("the controller ended: %v", m.err)
	case <-time.After(natstest.Patience):
		m.tb.Fatal("the controller does not start")
	}
}

// stop begins the stop and says when.
func (m *member) stop() time.Time {
	began := time.Now()
	m.cancel()
	return began
}

// wait waits until Start has returned, and expects it to return nil.
func (m *member) wait() {
	m.tb.Helper()
	select {
	case <-m.done:
	case <-time.After(natstest.Patience):
		m.tb.Fatal("the controller does not stop")
	}
	if m.err != nil {
		m.tb.Errorf("Start returned %v", m.err)
	}
}

// failure waits until Start has returned, and returns its error.
func (m *member) failure() error {
	m.tb.Helper()
	select {
	case <-m.done:
		return m.err
	case <-m.running:
		m.tb.Error("the controller has started")
	case <-time.After(natstest.Patience):
		m.tb.Error("the controller neither starts nor fails")
	}
	return nil
}

// returned reports whether Start has.
func (m *member) returned() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// started is a source that pushes nothing: added last, it tells when those before it have started.
type started chan struct{}

func (s started) Start(context.Context, chan<- string) error {
	close(s)
	return nil
}

// testLog is where a test's controllers log: shown when it fails, dropped once it has ended.
func testLog(tb testing.TB) io.Writer {
	l := &testLogWriter{out: tb.Output()}
	tb.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.out = io.Discard
	})
	return l
}

type testLogWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *testLogWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(b)
}

// errPanicked is the error of an attempt that did not return.
var errPanicked = errors.New("it panicked")

// waitFor is an attempt that takes no notice of its context: it succeeds when done is closed.
func waitFor(done <-chan struct{}) reconciler.Func[string] {
	return func(context.Context, string) (reconciler.Result, error) {
		<-done
		return reconciler.Result{}, nil
	}
}
