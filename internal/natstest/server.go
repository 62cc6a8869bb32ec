package natstest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// loopback is the only interface anything in this package listens on.
const loopback = "127.0.0.1"

// An Option changes how a [Server], or each server of a [Cluster], is set up.
type Option func(*config)

type config struct {
	texts []string
	edits []func(*server.Options)
}

// WithConfig edits the server's options: accounts, permissions, a domain, feature flags. It runs
// before every start, a restart included, on fresh options: make accounts inside it, since a
// server does not take over the accounts of its predecessor.
func WithConfig(edit func(*server.Options)) Option {
	return func(c *config) { c.edits = append(c.edits, edit) }
}

// WithConfigText sets options in the server's configuration language, which says accounts, users and
// permissions best. An account has JetStream only where its block says "jetstream: enabled".
func WithConfigText(text string) Option {
	return func(c *config) { c.texts = append(c.texts, text) }
}

// Server is a nats-server with JetStream on files, inside the test process. Its port and its store
// directory stay the same through Stop and Restart. Methods may be called from any goroutine except
// where they fail the test: call those from the test's own.
type Server struct {
	tb    testing.TB
	cfg   config
	name  string
	store string

	mu      sync.Mutex
	running *server.Server // the last one started; may have been stopped
	stopped bool
	port    int              // of the client listener; -1 before the first start
	route   *clusterSettings // nil unless part of a cluster
	names   []string         // of the accounts
	js      jetstream.JetStream
}

// Start runs a server of its own for the test and stops it at cleanup.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s := newServer(tb, "natstest", opts)
	s.launch()
	s.waitReady()
	return s
}

// newServer prepares a server without starting it.
func newServer(tb testing.TB, name string, opts []Option) *Server {
	tb.Helper()
	s := &Server{tb: tb, name: name, store: tb.TempDir(), port: -1, stopped: true}
	for _, opt := range opts {
		opt(&s.cfg)
	}
	// Registered after TempDir: the server is down before its directory is removed.
	tb.Cleanup(s.Stop)
	return s
}

// URL is where clients connect.
func (s *Server) URL() string { return "nats://" + s.Addr() }

// Addr is the host and port clients connect to, as a [Proxy] takes it.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return net.JoinHostPort(loopback, strconv.Itoa(s.port))
}

// Name is the server's name, unique within its cluster.
func (s *Server) Name() string { return s.name }

// Server is the running nats-server itself; after Restart it is another one.
func (s *Server) Server() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// Running reports whether the server is up.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.stopped
}

// Conn connects a client that never gives up reconnecting, also if the server is down at first, and
// closes it at cleanup. opts come last: they override.
func (s *Server) Conn(opts ...nats.Option) *nats.Conn {
	s.tb.Helper()
	return Connect(s.tb, s.URL(), opts...)
}

// JetStream is JetStream on a connection of its own, apart from the one under test. Without options
// every call returns the same.
func (s *Server) JetStream(opts ...nats.Option) jetstream.JetStream {
	s.tb.Helper()
	s.mu.Lock()
	shared := s.js
	s.mu.Unlock()
	if len(opts) == 0 && shared != nil {
		return shared
	}
	js, err := jetstream.New(s.Conn(opts...))
	if err != nil {
		s.tb.Fatalf("jetstream: %v", err)
	}
	if len(opts) == 0 {
		s.mu.Lock()
		s.js = js
		s.mu.Unlock()
	}
	return js
}

// Stop shuts the server down in good order and waits until it is gone. Its streams stay on disk.
// Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.stopped = true
}

// Restart stops the server if it runs and starts it on the same port and store directory. It returns
// when JetStream answers for the streams found there; in a cluster, when this server has caught up with
// the others, unless it reaches too few of them (see [Cluster.WaitCurrent]).
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	s.launch()
	s.waitReady()
}

// Relaunch is Restart without the wait: it returns when the server listens. In a cluster that is being
// broken in several ways at once, a server may be healthy only much later.
func (s *Server) Relaunch() {
	s.tb.Helper()
	s.Stop()
	s.launch()
}

// Reconfigure edits the options of the server if it runs, as a configuration reload does, and of every
// later start. Clients whose rights change are disconnected by the server and may come back. It fails
// the test if the server cannot change that while it runs.
//
// The race detector finds that server 2.15.3 reads an option for each direct get without a lock. While there
// may be any, stop the server first and start it afterwards.
func (s *Server) Reconfigure(edit func(*server.Options)) {
	s.tb.Helper()
	s.mu.Lock()
	s.cfg.edits = append(s.cfg.edits, edit)
	srv, stopped := s.running, s.stopped
	opts, err := s.options()
	s.mu.Unlock()
	if err == nil && !stopped {
		err = srv.ReloadOptions(opts)
	}
	if err != nil {
		s.tb.Fatalf("reconfigure %s: %v", s.name, err)
	}
}

// launch starts a server and waits for its listener, trying again as long as the port is taken:
// anything on this machine may hold it for a moment as the local end of an outgoing connection.
func (s *Server) launch() {
	s.tb.Helper()
	Eventually(s.tb, "server "+s.name+" listens", Patience, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.tryLaunch()
	})
}

// tryLaunch makes one attempt. The lock is held.
func (s *Server) tryLaunch() error {
	opts, err := s.options()
	if err != nil {
		return err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	fatal := make(fatalLog, 1)
	srv.SetLoggerV2(fatal, false, false, false)
	// Start returns when everything listens; in a cluster routes come up behind it.
	srv.Start()
	for deadline := time.Now().Add(Patience); !srv.ReadyForConnections(pollLast); {
		cause := ""
		select {
		case cause = <-fatal:
		default:
			if time.Now().After(deadline) {
				cause = "not ready for connections"
			}
		}
		if cause != "" {
			srv.Shutdown()
			srv.WaitForShutdown()
			return errors.New(cause)
		}
	}
	s.running, s.stopped = srv, false
	// From now on, so that clients find it again.
	s.port = srv.Addr().(*net.TCPAddr).Port
	s.rename(opts)
	if s.route != nil {
		s.route.cluster.aim(s.route.index, srv.ClusterAddr().String())
	}
	return nil
}

// options are made anew for every start. The lock is held.
func (s *Server) options() (*server.Options, error) {
	opts := new(server.Options)
	for _, text := range s.cfg.texts {
		if err := opts.ProcessConfigString(text); err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
	}
	opts.ServerName = s.name
	opts.Host, opts.Port = loopback, s.port
	opts.JetStream, opts.StoreDir = true, s.store
	// Stated, else the server reserves by what this machine has.
	opts.JetStreamMaxMemory, opts.JetStreamMaxStore = 1<<30, 1<<40
	opts.DisableJetStreamBanner = true
	opts.NoLog, opts.NoSigs = true, true // signals are the test process's own
	if s.route != nil {
		s.route.apply(opts)
	}
	for _, edit := range s.cfg.edits {
		edit(opts)
	}
	return opts, nil
}

// rename notes the accounts' names. The lock is held.
func (s *Server) rename(opts *server.Options) {
	s.names = []string{server.DEFAULT_GLOBAL_ACCOUNT}
	for _, account := range opts.Accounts {
		s.names = append(s.names, account.Name)
	}
}

// accounts are the names of those the server was started with.
func (s *Server) accounts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names
}

// waitReady waits until the server reports itself healthy: JetStream enabled, streams recovered.
// Where it reaches too few others for that, as while a whole cluster restarts, it cannot be.
func (s *Server) waitReady() {
	s.tb.Helper()
	if s.route != nil && !s.route.cluster.canCatchUp(s) {
		return
	}
	Eventually(s.tb, "server "+s.name+" is healthy", Patience, s.healthy)
}

func (s *Server) healthy() error {
	if h := s.Server().Healthz(&server.HealthzOptions{}); h.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", h.Status, h.Error)
	}
	return nil
}

// fatalLog is a server's log of which only what ends the server matters.
type fatalLog chan string

func (f fatalLog) Fatalf(format string, v ...any) {
	select {
	case f <- fmt.Sprintf(format, v...):
	default: // the first tells the cause
	}
}

func (fatalLog) Noticef(string, ...any) {}
func (fatalLog) Warnf(string, ...any)   {}
func (fatalLog) Errorf(string, ...any)  {}
func (fatalLog) Debugf(string, ...any)  {}
func (fatalLog) Tracef(string, ...any)  {}
