package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/levelstream/jsource/reconciler"
)

const (
	// syncTimeout bounds how long Start waits for the cache to hold the kind, as controller-runtime's
	// CacheSyncTimeout does, and has the same default.
	syncTimeout = 2 * time.Minute
	// slow is when it says for the first time that it waits.
	slow = 10 * time.Second
)

// Kind is a source of what h makes of the events of a Kubernetes kind, obj naming the kind: what
// source.Kind is for a controller-runtime controller, with the same handlers and predicates. Start returns once
// the first list has been pushed. It fails at once when the kind is not in the scheme or not installed, and
// after 2 minutes (see [CacheSyncTimeout]) when it cannot be listed: a cache keeps trying, since that may end,
// and tells nobody why it fails. What h adds with a delay, with backoff or with low priority is
// pushed so.
func Kind[object client.Object, request comparable](c cache.Cache, obj object,
	h handler.TypedEventHandler[object, request], p ...predicate.TypedPredicate[object],
) reconciler.Source[request] {
	return &kind[object, request]{cache: c, obj: obj, handler: h, predicates: p}
}

type kind[object client.Object, request comparable] struct {
	cache      cache.Cache
	obj        object
	handler    handler.TypedEventHandler[object, request]
	predicates []predicate.TypedPredicate[object]
}

// String names the source in logs and errors.
func (k *kind[object, request]) String() string { return "kube " + k.name() }

// name is the Go type, which says the kind except where one type stands for all kinds.
func (k *kind[object, request]) name() string {
	switch obj := any(k.obj).(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		if o, ok := obj.(client.Object); ok {
			return fmt.Sprintf("%T %v", k.obj, o.GetObjectKind().GroupVersionKind())
		}
	}
	return fmt.Sprintf("%T", k.obj)
}

// Start implements reconciler.Source.
func (k *kind[object, request]) Start(ctx context.Context, out chan<- request) error {
	if err := k.available(ctx); err != nil {
		return fmt.Errorf("watching %s: %w", k.name(), err)
	}
	q := newPushQueue(ctx, out)
	src := source.TypedKind(k.cache, k.obj, k.handler, k.predicates...)
	if err := src.Start(ctx, q); err != nil {
		return fmt.Errorf("watching %s: %w", k.name(), err)
	}
	timeout := syncTimeoutOf(ctx)
	sync, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	waiting := time.AfterFunc(slow, func() {
		k.logger(ctx).Warn("still waiting for the first list; is the controller allowed to list and watch the kind?",
			"kind", k.name(), "for", slow, "at most", timeout)
	})
	defer waiting.Stop()
	if err := src.WaitForSync(sync); err != nil {
		return fmt.Errorf("watching %s: it could not be listed within %v; is the controller allowed to list and watch it? %w",
			k.name(), timeout, err)
	}
	return q.pushed(ctx)
}

func (k *kind[object, request]) logger(ctx context.Context) *slog.Logger {
	if h, ours := reconciler.FromContext(ctx); ours {
		return h.Logger()
	}
	return reconciler.DefaultLogger(ctx)
}

// available reports why the kind cannot be watched, as far as that is known at once.
func (k *kind[object, request]) available(ctx context.Context) error {
	if any(k.cache) == nil {
		return errors.New("the cache is nil")
	}
	_, err := k.cache.GetInformer(ctx, k.obj, cache.BlockUntilSynced(false))
	var missing *meta.NoKindMatchError
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("the kind %s is not installed in the cluster: %w", missing.GroupKind, err)
	case meta.IsNoMatchError(err): // nothing of its group is
		return fmt.Errorf("the kind is not installed in the cluster: %w", err)
	case runtime.IsNotRegisteredError(err):
		return fmt.Errorf("the kind is not in the manager's scheme: add it with AddToScheme: %w", err)
	default:
		return err
	}
}
