package kube_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/kube"
)

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version}}
}

// start starts src by itself and returns what it pushes.
func start[request any](t *testing.T, src reconciler.Source[request]) <-chan request {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	out := make(chan request, 100)
	if err := src.Start(ctx, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func next[request any](t *testing.T, out <-chan request) request {
	t.Helper()
	select {
	case req := <-out:
		return req
	case <-time.After(10 * time.Second):
		t.Fatal("nothing is pushed")
		panic("unreachable")
	}
}

func TestKind_PushesWhatTheHandlerAdds(t *testing.T) {
	informers := &informertest.FakeInformers{}
	informer, err := informers.FakeInformerFor(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	// As the seeds write it: a Kind of client.Object.
	out := start(t, kube.Kind(informers, client.Object(&corev1.Pod{}), &handler.EnqueueRequestForObject{}))
	informer.Add(pod("a", "1"))
	if got := next(t, out); got.Name != "a" || got.Namespace != "ns" {
		t.Fatalf("pushed %v", got)
	}
	informer.Update(pod("a", "1"), pod("a", "2"))
	informer.Delete(pod("b", "1"))
	got := []string{next(t, out).Name, next(t, out).Name}
	slices.Sort(got)
	if !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("pushed %v", got)
	}
}

func TestKind_HonoursDelays(t *testing.T) {
	informers := &informertest.FakeInformers{}
	informer, err := informers.FakeInformerFor(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	const delay = 50 * time.Millisecond
	out := start(t, kube.Kind(informers, &corev1.Pod{}, handler.TypedFuncs[*corev1.Pod, string]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Pod], q workqueue.TypedRateLimitingInterface[string]) {
			q.AddAfter(e.Object.Name, delay)
			q.AddRateLimited(e.Object.Name + " limited")
		},
	}))
	began := time.Now()
	informer.Add(pod("a", "1"))
	if got := next(t, out); got != "a limited" {
		t.Fatalf("pushed %q first", got)
	}
	if got := next(t, out); got != "a" || time.Since(began) < delay {
		t.Fatalf("pushed %q after %v, it was to wait %v", got, time.Since(began), delay)
	}
}

func TestKind_LowPriorityGivesWay(t *testing.T) {
	informers := &informertest.FakeInformers{}
	informer, err := informers.FakeInformerFor(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan reconcile.Request, 10)
	listening, busy, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	c, err := reconciler.New[reconcile.Request]("pods").
		Watch(kube.Kind(informers, client.Object(&corev1.Pod{}), &handler.EnqueueRequestForObject{})).
		Watch(startedSource(func() { close(listening) })). // sources start in order
		Func(func(_ context.Context, req reconcile.Request) (reconciler.Result, error) {
			if req.Name == "first" {
				close(busy)
				<-release
			}
			got <- req
			return reconciler.Result{}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	<-listening
	informer.Add(pod("first", "1"))
	<-busy
	// An update that changes nothing is what controller-runtime calls low priority.
	informer.Update(pod("resynced", "1"), pod("resynced", "1"))
	for c.Stats().Queued == 0 {
		time.Sleep(time.Millisecond)
	}
	informer.Update(pod("changed", "1"), pod("changed", "2"))
	for c.Stats().Queued < 2 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	order := []string{next(t, got).Name, next(t, got).Name, next(t, got).Name}
	if !slices.Equal(order, []string{"first", "changed", "resynced"}) {
		t.Fatalf("worked on in the order %v", order)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// startedSource is a source that pushes nothing and calls the function when it is started.
type startedSource func()

func (f startedSource) Start(context.Context, chan<- reconcile.Request) error {
	f()
	return nil
}

func TestKeyed_OldAndNewBothCount(t *testing.T) {
	informers := &informertest.FakeInformers{}
	informer, err := informers.FakeInformerFor(t.Context(), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	out := start(t, kube.Keyed(informers, &corev1.Pod{}, func(_ context.Context, p *corev1.Pod) []string {
		return []string{p.Spec.NodeName, p.Spec.NodeName}
	}))
	before, after := pod("a", "1"), pod("a", "2")
	before.Spec.NodeName, after.Spec.NodeName = "old", "new"
	informer.Update(before, after)
	got := []string{next(t, out), next(t, out)}
	slices.Sort(got)
	if !slices.Equal(got, []string{"new", "old"}) {
		t.Fatalf("pushed %v", got)
	}
}

func TestKind_SaysWhichKindCannotBeWatched(t *testing.T) {
	for _, c := range []struct {
		name string
		fake *informertest.FakeInformers
		want []string
	}{
		{"not in the scheme", &informertest.FakeInformers{Scheme: runtime.NewScheme()}, []string{"v1.Pod", "scheme"}},
		{
			"not installed",
			&informertest.FakeInformers{Error: &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "kargo.io", Kind: "Stage"}}},
			[]string{"v1.Pod", "Stage.kargo.io", "not installed"},
		},
		{"other", &informertest.FakeInformers{Error: errors.New("boom")}, []string{"v1.Pod", "boom"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := kube.Kind(c.fake, client.Object(&corev1.Pod{}), &handler.EnqueueRequestForObject{})
			err := src.Start(t.Context(), make(chan reconcile.Request))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}
