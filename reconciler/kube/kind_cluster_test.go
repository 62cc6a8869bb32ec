package kube_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/internal/kubetest"
	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/kube"
)

// kinds are ConfigMaps on a real API server, and a cache of them.
type kinds struct {
	tb     testing.TB
	ns     string
	client client.Client
	cache  cache.Cache
}

func newKinds(t *testing.T) *kinds {
	t.Helper()
	c := kubetest.Start(t)
	k := &kinds{tb: t, ns: c.Namespace(t), client: c.Client(t, nil)}
	k.cache = runCache(t, c.Config, cache.Options{DefaultNamespaces: map[string]cache.Config{k.ns: {}}})
	return k
}

// runCache starts a cache, which stops when the test ends.
func runCache(t *testing.T, cfg *rest.Config, o cache.Options) cache.Cache {
	t.Helper()
	c, err := cache.New(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the cache ended with %v", err)
		}
	})
	return c
}

func (k *kinds) create(names ...string) {
	k.tb.Helper()
	for _, name := range names {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.ns, Name: name}}
		if err := k.client.Create(context.Background(), cm); err != nil {
			k.tb.Fatal(err)
		}
	}
}

// label sets the label "owner" of a ConfigMap.
func (k *kinds) label(name, owner string) {
	k.tb.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.ns, Name: name}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"owner":%q}}}`, owner))
	if err := k.client.Patch(context.Background(), cm, patch); err != nil {
		k.tb.Fatal(err)
	}
}

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return names
}

// Start returns only when all of the first list has been pushed: a controller that begins its work then knows all.
func TestKind_StartReturnsWhenTheFirstListIsPushed(t *testing.T) {
	t.Parallel()
	k := newKinds(t)
	names := numbered("first", 50)
	k.create(names...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := make(chan reconcile.Request) // whoever pushes has to wait
	started := make(chan error, 1)
	src := kube.Kind(k.cache, client.Object(&corev1.ConfigMap{}), &handler.EnqueueRequestForObject{})
	go func() { started <- src.Start(ctx, out) }()
	var got []string
	for len(got) < len(names) {
		if len(got) == len(names)-1 {
			// Another one, which began later, has had the list: only the push can be missing here.
			again := make(chan reconcile.Request, len(names))
			if err := kube.Kind(k.cache, client.Object(&corev1.ConfigMap{}), &handler.EnqueueRequestForObject{}).Start(ctx, again); err != nil {
				t.Fatal(err)
			}
			if len(again) != len(names) {
				t.Errorf("Start returned when %d of %d were pushed", len(again), len(names))
			}
			select {
			case err := <-started:
				t.Fatalf("Start returned (%v) when %d of %d were pushed", err, len(got), len(names))
			default:
			}
		}
		select {
		case req := <-out:
			got = append(got, req.Name)
		case err := <-started:
			t.Fatalf("Start returned (%v) when %d of %d were pushed", err, len(got), len(names))
		case <-time.After(natstest.Patience):
			t.Fatalf("%d of %d were pushed", len(got), len(names))
		}
	}
	select {
	case err := <-started:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(natstest.Patience):
		t.Fatal("Start does not return")
	}
	slices.Sort(got)
	if !slices.Equal(got, names) {
		t.Errorf("pushed %v", got)
	}
	// And the events that follow.
	k.label(names[7], "a")
	if got := next(t, out); got.Name != names[7] {
		t.Errorf("pushed %v", got)
	}
}

// An object that is there already when the controller starts can wait for one that changes now.
func TestKind_TheFirstListGivesWayToChanges(t *testing.T) {
	t.Parallel()
	k := newKinds(t)
	names := numbered("first", 5)
	k.create(names...)
	busy, release, got := make(chan struct{}), make(chan struct{}), make(chan string, 100)
	c, err := reconciler.New[reconcile.Request]("config maps").
		Watch(kube.Kind(k.cache, client.Object(&corev1.ConfigMap{}), &handler.EnqueueRequestForObject{})).
		Func(func(ctx context.Context, req reconcile.Request) (reconciler.Result, error) {
			got <- req.Name
			if len(got) == 1 {
				close(busy)
				<-release
			}
			return reconciler.Result{}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	<-busy
	natstest.Until(t, "the first list is queued", natstest.Patience, func() bool { return c.Stats().Queued == len(names)-1 })
	k.create("new")
	natstest.Until(t, "the new one is queued", natstest.Patience, func() bool { return c.Stats().Queued == len(names) })
	close(release)
	natstest.Until(t, "all are reconciled", natstest.Patience, func() bool { return len(got) == len(names)+1 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	<-got
	if second := <-got; second != "new" {
		t.Errorf("%s came before what is new", second)
	}
}

// What a handler adds with a delay or with backoff comes with it, and what has a higher priority comes first.
func TestKind_HonoursHowTheHandlerAdds(t *testing.T) {
	t.Parallel()
	k := newKinds(t)
	const delay = 300 * time.Millisecond
	type queue = workqueue.TypedRateLimitingInterface[string]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := make(chan string)
	added := make(chan struct{})
	k.create("there")
	began := time.Now()
	err := kube.Kind(k.cache, &corev1.ConfigMap{}, handler.TypedFuncs[*corev1.ConfigMap, string]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.ConfigMap], q queue) {
			if e.IsInInitialList {
				// Not due when Start is to return: it does not wait for them.
				q.AddAfter("late", delay)
				q.AddRateLimited("limited")
				return
			}
			defer close(added)
			pq := q.(priorityqueue.PriorityQueue[string])
			q.Add("first")
			// Once it is taken out, it is being pushed, and what follows waits in the queue.
			natstest.Until(t, "the queue is empty", natstest.Patience, func() bool { return q.Len() == 0 })
			q.Add("normal")
			pq.AddWithOpts(priorityqueue.AddOpts{Priority: new(10)}, "urgent")
		},
	}).Start(ctx, out)
	if err != nil {
		t.Fatal(err)
	}
	if got := next(t, out); got != "limited" {
		t.Errorf("pushed %q, not the one with backoff", got)
	}
	if got := next(t, out); got != "late" || time.Since(began) < delay {
		t.Errorf("pushed %q after %v", got, time.Since(began))
	}
	k.create("new")
	<-added
	if got := []string{next(t, out), next(t, out), next(t, out)}; !slices.Equal(got, []string{"first", "urgent", "normal"}) {
		t.Errorf("pushed in the order %v", got)
	}
}

// A change of an object concerns what it referred to before and what it refers to now.
func TestKeyed_OldAndNewOnARealServer(t *testing.T) {
	t.Parallel()
	k := newKinds(t)
	k.create("a")
	k.label("a", "old")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := make(chan string, 10)
	err := kube.Keyed(k.cache, &corev1.ConfigMap{}, func(_ context.Context, cm *corev1.ConfigMap) []string {
		return []string{cm.Labels["owner"]}
	}).Start(ctx, out)
	if err != nil {
		t.Fatal(err)
	}
	if got := next(t, out); got != "old" {
		t.Fatalf("pushed %q for the first list", got)
	}
	k.label("a", "new")
	got := []string{next(t, out), next(t, out)}
	slices.Sort(got)
	if !slices.Equal(got, []string{"new", "old"}) {
		t.Errorf("pushed %v", got)
	}
	if err := k.client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.ns, Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	if got := next(t, out); got != "new" {
		t.Errorf("pushed %q for the deletion", got)
	}
}

// Each reason why a kind cannot be watched is an error that says which kind and why.
func TestKind_SaysWhyOnARealServer(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	stage := &unstructured.Unstructured{}
	stage.SetGroupVersionKind(schema.GroupVersionKind{Group: "kargo.akuity.io", Version: "v1alpha1", Kind: "Stage"})
	for _, tc := range []struct {
		name  string
		obj   client.Object
		cache func(t *testing.T) cache.Cache
		want  []string
	}{
		{
			"not installed", stage,
			func(t *testing.T) cache.Cache { return runCache(t, c.Config, cache.Options{}) },
			[]string{"Stage", "kargo.akuity.io", "not installed"},
		},
		{
			"not in the scheme", &corev1.ConfigMap{},
			func(t *testing.T) cache.Cache {
				return runCache(t, c.Config, cache.Options{Scheme: runtime.NewScheme()})
			},
			[]string{"v1.ConfigMap", "scheme"},
		},
		{
			"not allowed", &corev1.ConfigMap{},
			func(t *testing.T) cache.Cache {
				return runCache(t, c.User(t, "nobody"), cache.Options{}) // one of namespaces leaves a goroutine
			},
			[]string{"v1.ConfigMap", "could not be listed", "allowed"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctrl, err := reconciler.New[reconcile.Request]("says why").
				Watch(kube.Kind(tc.cache(t), tc.obj, &handler.EnqueueRequestForObject{})).
				Func(func(context.Context, reconcile.Request) (reconciler.Result, error) {
					return reconciler.Result{}, errors.New("it runs")
				})
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() { done <- kube.Runnable(ctrl, kube.CacheSyncTimeout(2*time.Second)).Start(ctx) }()
			select {
			case err = <-done:
			case <-time.After(natstest.Patience):
				t.Fatal("it starts, or waits for ever")
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(tc.want, "says why") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}
