package kube_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/levelstream/jsource/internal/kubetest"
	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler/nats"
)

// What the controllers under test watch: changes of widgets, whose keys are the requests.
const (
	widgetStream  = "WIDGETS"
	widgetDurable = "widgets"
)

type widget struct{}

var widgets = nats.NewTopic[string, widget]("widgets")

type widgetSource = jsource.Source[string, widget, string]

// short is an AckWait for tests in which somebody has to wait for it. Heartbeats have to be in time for it even
// on a busy machine.
const short = time.Second

// long is an AckWait for tests in which nobody may have to wait for it.
const long = 10 * natstest.Patience

// world is a Kubernetes API server, a NATS server, and a witness of what is settled.
type world struct {
	tb      testing.TB
	cluster *kubetest.Cluster
	ns      string // of this test
	srv     *natstest.Server
	js      jetstream.JetStream
	pub     *jsource.Publisher
	witness *natstest.Witness
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{tb: tb, cluster: kubetest.Start(tb), srv: natstest.Start(tb)}
	w.ns, w.js = w.cluster.Namespace(tb), w.srv.JetStream()
	var err error
	stream := jetstream.StreamConfig{Name: widgetStream}
	if w.pub, err = jsource.NewPublisher(w.srv.Conn(), jsource.PublisherStream(stream)); err != nil {
		tb.Fatal(err)
	}
	w.witness = natstest.Watch(tb, w.srv.Conn(), widgetStream, widgetDurable)
	return w
}

// source is a source of widgets over a connection of its own.
func (w *world) source() *widgetSource {
	w.tb.Helper()
	return sourceOn(w.srv.Conn())
}

func sourceOn(conn *natsgo.Conn) *widgetSource {
	return jsource.Subject(conn, widgets).Durable(widgetDurable).AckWait(long).
		Stream(jetstream.StreamConfig{Name: widgetStream})
}

// publish publishes a change of each key and returns what the stream says of them.
func (w *world) publish(keys ...string) []jsource.Receipt {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), natstest.Patience)
	defer cancel()
	receipts := make([]jsource.Receipt, len(keys))
	for i, key := range keys {
		var err error
		if receipts[i], err = jsource.PublishCreated(ctx, w.pub, widgets, key, widget{}); err != nil {
			w.tb.Fatalf("publishing %s: %v", key, err)
		}
	}
	return receipts
}

// settled waits until the server says that the durable has nothing left, and checks that each message was given one
// verdict: by one replica, which may have repeated it until the server confirmed it.
func (w *world) settled() {
	w.tb.Helper()
	natstest.WaitSettled(w.tb, w.js, widgetStream, widgetDurable)
	w.witness.Sync(w.tb)
	first := map[uint64]natstest.Settlement{}
	for _, s := range w.witness.All() {
		if !s.Verdict() {
			continue
		}
		f, decided := first[s.StreamSeq]
		if decided && (s.ConsumerSeq != f.ConsumerSeq || s.Payload != f.Payload) {
			w.tb.Errorf("two verdicts for message %d:\n%s", s.StreamSeq, settlements(w.witness.Of(s.StreamSeq)))
		}
		if !decided {
			first[s.StreamSeq] = s
		}
	}
}

// settlements lists what was said, for a failed test's report.
func settlements(list []natstest.Settlement) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "%s %v\n", s.At.Format("05.000"), s)
	}
	return b.String()
}

// verdict waits for the verdict of a message and returns it.
func (w *world) verdict(r jsource.Receipt) natstest.Settlement {
	w.tb.Helper()
	w.witness.WaitFor(w.tb, fmt.Sprintf("a verdict for message %d", r.Sequence), func([]natstest.Settlement) bool {
		return len(w.witness.Verdicts(r.Sequence)) > 0
	})
	return w.witness.Verdicts(r.Sequence)[0]
}

// undecided checks that a message has none.
func (w *world) undecided(r jsource.Receipt) {
	w.tb.Helper()
	w.witness.Sync(w.tb)
	if v := w.witness.Verdicts(r.Sequence); len(v) > 0 {
		w.tb.Errorf("message %d is decided already: %v", r.Sequence, v)
	}
}

// managerOptions are those of a manager that watches the test's namespace and serves nothing; with an id it takes
// part in the election of the leader of that name.
func managerOptions(ns, lease string) manager.Options {
	again := true
	o := manager.Options{
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}},
		Metrics:                       server.Options{BindAddress: "0"},
		Controller:                    config.Controller{SkipNameValidation: &again}, // names are those of the test
		LeaderElection:                lease != "",
		LeaderElectionID:              lease,
		LeaderElectionNamespace:       ns,
		LeaderElectionReleaseOnCancel: true,
	}
	// Quick to take over what is released, slow to lose it on a busy machine.
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = new(30*time.Second), new(20*time.Second), new(200*time.Millisecond)
	return o
}

// replica is a manager that runs.
type replica struct {
	tb     testing.TB
	mgr    manager.Manager
	cancel context.CancelFunc
	done   chan error
}

// manager makes a manager; lease as managerOptions has it.
func (w *world) manager(lease string, edits ...func(*manager.Options)) manager.Manager {
	w.tb.Helper()
	o := managerOptions(w.ns, lease)
	for _, edit := range edits {
		edit(&o)
	}
	// Not the shared one: each replica has connections of its own.
	mgr, err := manager.New(rest.CopyConfig(w.cluster.Config), o)
	if err != nil {
		w.tb.Fatalf("making a manager: %v", err)
	}
	return mgr
}

// run starts a manager with runnables. It is stopped when the test ends.
func (w *world) run(mgr manager.Manager, runnables ...manager.Runnable) *replica {
	w.tb.Helper()
	for _, r := range runnables {
		if err := mgr.Add(r); err != nil {
			w.tb.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{tb: w.tb, mgr: mgr, cancel: cancel, done: make(chan error, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.done <- mgr.Start(ctx)
	}()
	w.tb.Cleanup(func() { cancel(); <-ended })
	return r
}

// leads waits until the manager leads.
func (r *replica) leads() {
	r.tb.Helper()
	select {
	case <-r.mgr.Elected():
	case err := <-r.done:
		r.tb.Fatalf("the manager ended instead of leading: %v", err)
	case <-time.After(natstest.Patience):
		r.tb.Fatal("it is not elected")
	}
}

// wait returns how the manager ended.
func (r *replica) wait() error {
	r.tb.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(natstest.Patience):
		r.tb.Fatal("the manager does not stop")
		return nil
	}
}

// stop stops the manager and waits until it has.
func (r *replica) stop() {
	r.tb.Helper()
	r.cancel()
	if err := r.wait(); err != nil {
		r.tb.Errorf("the manager ended with %v", err)
	}
}

// attempts counts attempts by request.
type attempts struct {
	mu sync.Mutex
	n  map[string]int
}

// add notes one and returns which it is, from 1.
func (a *attempts) add(req string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == nil {
		a.n = map[string]int{}
	}
	a.n[req]++
	return a.n[req]
}

func (a *attempts) all() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.n)
}

// of is how many there were on req.
func (a *attempts) of(req string) int { return a.all()[req] }

// reach waits until there were n on req.
func (a *attempts) reach(tb testing.TB, req string, n int) {
	tb.Helper()
	natstest.Until(tb, fmt.Sprintf("%d attempts on %s", n, req), natstest.Patience, func() bool { return a.of(req) >= n })
}

var errTest = errors.New("out of stock")
