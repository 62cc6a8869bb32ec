package nats_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/levelstream/jsource/reconciler/nats"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type order struct {
	Customer string            `json:"customer"`
	Total    int               `json:"total"`
	Labels   map[string]string `json:"labels,omitempty"`
}

var orders = nats.NewTopic[string, order]("shop.orders")

// runServer runs a server until the test ends; port -1 is any.
func runServer(t testing.TB, opts *server.Options) *server.Server {
	t.Helper()
	opts.Host, opts.NoLog, opts.NoSigs = "127.0.0.1", true, true
	srv, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if !srv.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	return srv
}

func connect(t testing.TB, url string, opts ...natsgo.Option) *natsgo.Conn {
	t.Helper()
	closed := make(chan struct{})
	opts = append(opts, natsgo.ClosedHandler(func(*natsgo.Conn) { close(closed) }),
		natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {}))
	conn, err := natsgo.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		<-closed
	})
	return conn
}

func newConn(t testing.TB) *natsgo.Conn {
	t.Helper()
	return connect(t, runServer(t, &server.Options{Port: -1}).ClientURL())
}

// starter is a source of any type of request.
type starter[request any] interface {
	Start(ctx context.Context, out chan<- request) error
}

// start starts a source until the test ends or stop is called.
func start[request any](t testing.TB, src starter[request]) (out chan request, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	out = make(chan request)
	if err := src.Start(ctx, out); err != nil {
		t.Fatal(err)
	}
	return out, cancel
}

func receive[request any](t testing.TB, out <-chan request) request {
	t.Helper()
	select {
	case req := <-out:
		return req
	case <-time.After(patience):
		t.Fatal("no request came")
		panic("unreachable")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never happened: " + what)
		}
	}
}

// mustFail checks that err says all of the words.
func mustFail(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

// logged collects what is logged by default until the test ends.
func logged(t testing.TB) *logLines {
	lines := &logLines{}
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(lines, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return lines
}

type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// publisher remembers what was published, or fails.
type publisher struct {
	subject string
	data    []byte
	err     error
}

func (p *publisher) Publish(subject string, data []byte) error {
	p.subject, p.data = subject, data
	return p.err
}

var errRefused = errors.New("refused")
