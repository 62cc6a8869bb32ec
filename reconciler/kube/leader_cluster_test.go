package kube_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/kube"
)

const lease = "widgets"

// didSubject is where replicas say what they have reconciled, in whatever process they run.
const didSubject = "did"

// leading is a controller of this module on src that takes a moment for each request and says what it has done.
func leading(conn *natsgo.Conn, src *widgetSource) (*reconciler.Controller[string], error) {
	return reconciler.New[string](widgetDurable).Watch(src).Workers(4).
		Func(func(ctx context.Context, req string) (reconciler.Result, error) {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				return reconciler.Result{}, context.Cause(ctx)
			}
			if err := conn.Publish(didSubject, []byte(req)); err != nil {
				return reconciler.Result{}, err
			}
			return reconciler.Result{}, conn.FlushTimeout(natstest.Patience)
		})
}

// done collects what replicas say they have done.
type done struct {
	mu   sync.Mutex
	reqs map[string]int
}

func (w *world) done() *done {
	w.tb.Helper()
	d := &done{reqs: map[string]int{}}
	conn := w.srv.Conn()
	if _, err := conn.Subscribe(didSubject, func(m *natsgo.Msg) {
		d.mu.Lock()
		d.reqs[string(m.Data)]++
		d.mu.Unlock()
	}); err != nil {
		w.tb.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		w.tb.Fatal(err)
	}
	return d
}

func (d *done) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.reqs)
}

// expect waits until all were done: the last word of a replica may still be on its way.
func (d *done) expect(tb testing.TB, reqs []string) {
	tb.Helper()
	natstest.Eventually(tb, "everything is reconciled", natstest.Patience, func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		var missing []string
		for _, req := range reqs {
			if d.reqs[req] == 0 {
				missing = append(missing, req)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("acknowledged and not reconciled: %d of %d: %v", len(missing), len(reqs), missing)
		}
		return nil
	})
}

// lead runs a replica that takes part in the election, with source options of the test.
func (w *world) lead(edit func(*widgetSource), edits ...func(*manager.Options)) *replica {
	w.tb.Helper()
	conn := w.srv.Conn()
	src := sourceOn(conn)
	edit(src)
	c, err := leading(conn, src)
	if err != nil {
		w.tb.Fatal(err)
	}
	return w.run(w.manager(lease, edits...), kube.Runnable(c))
}

// load publishes n changes of keys of their own, as fast as the stream takes them, until it has, and returns the
// keys.
func (w *world) load(n int) (keys []string, wait func()) {
	keys = numbered("key", n)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.publish(keys...)
	}()
	return keys, func() { <-ended }
}

// The leader stops gracefully under load: the other one has everything as soon as it leads, nothing waits for
// AckWait, nothing is lost.
func TestHandOver_LeaderStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	did := w.done()
	patient := func(s *widgetSource) { s.AckWait(long) }
	a := w.lead(patient)
	a.leads()
	b := w.lead(patient)
	keys, wait := w.load(600)
	natstest.Until(t, "the leader is at work", natstest.Patience, func() bool { return did.count() > 50 })
	a.stop()
	if n := did.count(); n == len(keys) {
		t.Fatal("the leader had done everything before it stopped: the load is too small")
	}
	b.leads()
	wait()
	w.settled() // long before AckWait
	did.expect(t, keys)
	b.stop()
}

// leaderChild is a replica in a process of its own.
const leaderChild = "leader"

func leader() {
	err := func() error {
		cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
		if err != nil {
			return err
		}
		conn, err := natsgo.Connect(os.Getenv("NATS_URL"))
		if err != nil {
			return err
		}
		defer conn.Close()
		c, err := leading(conn, sourceOn(conn).AckWait(2*short))
		if err != nil {
			return err
		}
		mgr, err := manager.New(cfg, mortal(managerOptions(os.Getenv("NAMESPACE"), lease)))
		if err != nil {
			return err
		}
		if err := mgr.Add(kube.Runnable(c)); err != nil {
			return err
		}
		go func() {
			<-mgr.Elected()
			fmt.Println("leads")
		}()
		return mgr.Start(signals.SetupSignalHandler())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// mortal are options of a manager whose lease ends soon after it has died.
func mortal(o manager.Options) manager.Options {
	o.LeaseDuration, o.RenewDeadline = new(8*time.Second), new(6*time.Second)
	return o
}

// The leader is killed under load: once its lease and its AckWait have ended, the other one goes on, and nothing is
// lost.
func TestHandOver_LeaderIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	did := w.done()
	a := natstest.Child(t, leaderChild, "KUBECONFIG="+w.cluster.Kubeconfig(t), "NATS_URL="+w.srv.URL(), "NAMESPACE="+w.ns)
	a.WaitLine("leads")
	b := w.lead(func(s *widgetSource) { s.AckWait(2 * short) }, func(o *manager.Options) { *o = mortal(*o) })
	keys, wait := w.load(600)
	natstest.Until(t, "the leader is at work", natstest.Patience, func() bool { return did.count() > 50 })
	a.Kill()
	if n := did.count(); n == len(keys) {
		t.Fatal("the leader had done everything before it was killed: the load is too small")
	}
	wait()
	b.leads()
	natstest.WaitSettled(t, w.js, widgetStream, widgetDurable)
	did.expect(t, keys)
	b.stop()
}

// Somebody else takes the lease, and the manager gives its runnables no time at all: what it held goes on in another
// replica, and nothing is lost.
func TestHandOver_LostLeadership(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.srv.Conn()
	src := sourceOn(conn).AckWait(2 * short)
	var tries attempts
	mgr := w.manager(lease, func(o *manager.Options) { *o = mortal(*o) })
	w.plain(mgr, src, plainOptions{}, func(ctx context.Context, req string) (reconcile.Result, error) {
		if tries.add(req) == 1 && req == "held" {
			<-ctx.Done() // it is at work when leadership is lost
			return reconcile.Result{}, context.Cause(ctx)
		}
		return reconcile.Result{}, nil
	})
	a := w.run(mgr)
	a.leads()
	w.verdict(w.publish("first")[0])
	held := w.publish("held", "queued behind it")
	tries.reach(t, "held", 1)

	c := w.cluster.Client(t, nil)
	natstest.Eventually(t, "the lease is taken", natstest.Patience, func() error {
		var l coordinationv1.Lease
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: w.ns, Name: lease}, &l); err != nil {
			return err
		}
		now := metav1.NowMicro()
		l.Spec.HolderIdentity, l.Spec.RenewTime, l.Spec.AcquireTime = new("somebody else"), &now, &now
		return c.Update(t.Context(), &l)
	})
	if err := a.wait(); err == nil || !strings.Contains(err.Error(), "leader election lost") {
		t.Errorf("the manager ended with %v", err)
	}
	// The process would exit now. The other replica leads when somebody else's lease has ended.
	did := w.done()
	b := w.lead(func(s *widgetSource) { s.AckWait(2 * short) }, func(o *manager.Options) { *o = mortal(*o) })
	b.leads()
	natstest.WaitSettled(t, w.js, widgetStream, widgetDurable)
	for _, r := range held {
		w.verdict(r)
	}
	lost := []string{"held"}
	if tries.of("queued behind it") == 0 { // its worker may have taken it before it knew
		lost = append(lost, "queued behind it")
	}
	did.expect(t, lost)
	b.stop()
}

// L6: a controller that warms up takes messages before its replica leads and has no workers: it holds one at most,
// and gives that back, so that the leader's events wait for nobody.
func TestSource_WarmsUpWithoutLeadership(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var tries attempts
	warm := func() *replica {
		mgr := w.manager(lease)
		w.plain(mgr, w.source().AckWait(short), plainOptions{EnableWarmup: new(true)},
			func(_ context.Context, req string) (reconcile.Result, error) {
				tries.add(req)
				return reconcile.Result{}, nil
			})
		return w.run(mgr)
	}
	a := warm()
	a.leads()
	w.verdict(w.publish("first")[0])
	b := warm()
	natstest.Until(t, "the other one pulls as well", natstest.Patience, func() bool {
		return natstest.ConsumerInfo(t, w.js, widgetStream, widgetDurable).NumWaiting >= 2
	})
	keys := numbered("key", 40)
	receipts := w.publish(keys...)
	natstest.Eventually(t, "all but one are settled at once", natstest.Patience, func() error {
		info := natstest.ConsumerInfo(t, w.js, widgetStream, widgetDurable)
		if info.NumPending > 0 || info.NumAckPending > 1 {
			return fmt.Errorf("%d pending, %d unsettled", info.NumPending, info.NumAckPending)
		}
		return nil
	})
	for _, r := range receipts {
		w.verdict(r)
	}
	w.settled()
	for _, key := range keys {
		if tries.of(key) == 0 {
			t.Errorf("%s is acked and was not reconciled", key)
		}
	}
	a.stop()
	b.leads()
	w.verdict(w.publish("after")[0])
	w.settled()
	b.stop()
}

// Without leader election all replicas work, and those that share a durable share its events.
func TestRunnable_AllReplicasShareADurable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mine [3]attempts
	var replicas []*replica
	for i := range mine {
		c, err := reconciler.New[string](widgetDurable).Watch(w.source()).Workers(2).
			Func(func(_ context.Context, req string) (reconciler.Result, error) {
				mine[i].add(req)
				return reconciler.Result{}, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		// The manager takes part in the election all the same: other controllers in it may need that.
		replicas = append(replicas, w.run(w.manager(lease), kube.Runnable(c, kube.WithoutLeaderElection())))
	}
	total := 0
	natstest.Until(t, "each has had some", natstest.Patience, func() bool {
		w.publish(numbered(fmt.Sprintf("round-%d", total), 30)...)
		total += 30
		for i := range mine {
			if len(mine[i].all()) == 0 {
				return false
			}
		}
		return true
	})
	w.settled()
	seen := map[string]int{}
	for i := range mine {
		for req, n := range mine[i].all() {
			seen[req] += n
		}
	}
	for req, n := range seen {
		if n != 1 {
			t.Errorf("%s was reconciled %d times", req, n)
		}
	}
	if len(seen) != total {
		t.Errorf("%d of %d were reconciled", len(seen), total)
	}
	for _, r := range replicas {
		r.stop()
	}
}

// S12: who gets what has to be said then.
func TestRunnable_AllReplicasNeedAName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, err := reconciler.New[string](widgetDurable).Watch(jsource.Subject(w.srv.Conn(), widgets)).
		Func(func(context.Context, string) (reconciler.Result, error) { return reconciler.Result{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	err = w.run(w.manager(""), kube.Runnable(c, kube.WithoutLeaderElection())).wait()
	for _, want := range []string{"Durable", "QueueGroup", "PerReplica"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not explain %s", err, want)
		}
	}
}
