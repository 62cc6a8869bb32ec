package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/levelstream/jsource/reconciler"
)

// syncTimeout bounds how long Start waits for the cache to hold the kind, as controller-runtime's
// CacheSyncTimeout does.
const syncTimeout = 2 * time.Minute

// Kind is a source of what h makes of the events of a Kubernetes kind, obj naming the kind: what
// source.Kind is for a controller-runtime controller, with the same handlers and predicates. Start returns once
// the first list has been pushed. It fails at once when the kind is not in the scheme or not installed, and
// after 2 minutes when it cannot be listed. What h adds with a delay, with backoff or with low priority is
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
func (k *kind[object, request]) String() string { return fmt.Sprintf("kube %T", k.obj) }

// Start implements reconciler.Source.
func (k *kind[object, request]) Start(ctx context.Context, out chan<- request) error {
	if err := k.available(ctx); err != nil {
		return fmt.Errorf("watching %T: %w", k.obj, err)
	}
	q := newPushQueue(ctx, out)
	src := source.TypedKind(k.cache, k.obj, k.handler, k.predicates...)
	if err := src.Start(ctx, q); err != nil {
		return fmt.Errorf("watching %T: %w", k.obj, err)
	}
	sync, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if err := src.WaitForSync(sync); err != nil {
		return fmt.Errorf("watching %T: it could not be listed within %v; is the controller allowed to list and watch it? %w",
			k.obj, syncTimeout, err)
	}
	return q.pushed(ctx)
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
	case runtime.IsNotRegisteredError(err):
		return fmt.Errorf("the kind is not in the manager's scheme: add it with AddToScheme: %w", err)
	default:
		return err
	}
}
