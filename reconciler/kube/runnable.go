package kube

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/levelstream/jsource/reconciler"
)

// drainTimeout is how long Drain gives running attempts, within the 30 seconds that a manager has by default.
const drainTimeout = 20 * time.Second

// Option changes a [Runnable].
type Option func(*runnable)

// WithoutLeaderElection runs the controller in every replica, not only in the elected leader. A durable source
// then insists on being told which replica receives what: with Durable or QueueGroup, or with PerReplica.
func WithoutLeaderElection() Option {
	return func(r *runnable) { r.everyReplica = true }
}

// CacheSyncTimeout bounds how long each [Kind] and [Keyed] of the controller waits for its first list when the
// controller starts. Default: 2 minutes. It panics if d is not positive.
func CacheSyncTimeout(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("kube: CacheSyncTimeout %v is not positive", d))
	}
	return func(r *runnable) { r.syncTimeout = d }
}

type syncTimeoutKey struct{}

func syncTimeoutOf(ctx context.Context) time.Duration {
	if d, ok := ctx.Value(syncTimeoutKey{}).(time.Duration); ok {
		return d
	}
	return syncTimeout
}

// Runnable makes a controller of package reconciler, or anything else with such a Start, one that a
// controller-runtime manager runs. By default it runs in the elected leader only.
func Runnable(c interface{ Start(context.Context) error }, opts ...Option) manager.Runnable {
	r := &runnable{controller: c}
	for _, opt := range opts {
		opt(r)
	}
	return r
}

type runnable struct {
	controller   interface{ Start(context.Context) error }
	everyReplica bool
	syncTimeout  time.Duration // 0: the default
}

// Start implements manager.Runnable.
func (r *runnable) Start(ctx context.Context) error {
	if r.everyReplica {
		ctx = reconciler.WithEveryReplica(ctx)
	}
	if r.syncTimeout > 0 {
		ctx = context.WithValue(ctx, syncTimeoutKey{}, r.syncTimeout)
	}
	return r.controller.Start(ctx)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *runnable) NeedLeaderElection() bool { return !r.everyReplica }

// Drain makes a manager drain a durable source that a plain controller-runtime controller watches when the
// manager stops: what is reconciled is settled, the rest given back, so that the next leader has it at once.
// Running attempts have 20 seconds.
func Drain(src interface{ Drain(context.Context) error }) manager.Runnable { return &drain{src} }

type drain struct {
	src interface{ Drain(context.Context) error }
}

// Start implements manager.Runnable: it waits for the manager to stop.
func (d *drain) Start(ctx context.Context) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	return d.src.Drain(ctx)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a source that warms up without leadership
// holds messages too.
func (d *drain) NeedLeaderElection() bool { return false }
