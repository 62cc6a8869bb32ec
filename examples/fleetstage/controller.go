package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/examples/fleetstage/kargoapi"
	"github.com/levelstream/jsource/examples/fleetstage/rolloutsapi"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/kube"
	"github.com/levelstream/jsource/reconciler/list"
)

// The variants of the controller: where what it watches is kept.
const (
	kinds       = "kinds"   // everything is a Kubernetes kind
	coreNATS    = "nats"    // promotion requests in the database, events over core NATS
	jetStream   = "jsource" // the same over JetStream: one word
	withTargets = "targets" // Targets in the database as well
)

// deployment is what a replica of the controller is given.
type deployment struct {
	config   *rest.Config
	project  string // the namespace it watches
	variant  string
	rollouts bool
	conn     *natsgo.Conn
	db       *database
	workers  int
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kargoapi.AddToScheme, rolloutsapi.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// newManager returns a manager, with leader election, that runs the controller.
func (d *deployment) newManager(ctx context.Context) (manager.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	mgr, err := manager.New(d.config, manager.Options{
		Scheme:                        scheme,
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{d.project: {}}},
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "fleet-stage",
		LeaderElectionNamespace:       d.project,
		LeaderElectionReleaseOnCancel: true, // the next leader need not wait for the lease to end
	})
	if err != nil {
		return nil, fmt.Errorf("making a manager: %w", err)
	}
	c, err := d.newController(ctx, mgr)
	if err != nil {
		return nil, err
	}
	return mgr, mgr.Add(kube.Runnable(c))
}

func (d *deployment) newController(ctx context.Context, mgr manager.Manager) (*reconciler.Controller[reconcile.Request], error) {
	r := &FleetStageReconciler{client: mgr.GetClient(), requests: d.db.Requests, rollouts: d.rollouts}
	// Event sources first, so that they are subscribed while the lists are made.
	var sources []stageSource
	switch d.variant {
	case kinds:
		if err := indexPromotionRequests(ctx, mgr.GetFieldIndexer()); err != nil {
			return nil, err
		}
		r.requests = requestsInCache(mgr.GetClient())
		sources = append(sources, promotionRequestKind(mgr, slog.Default()))
	case coreNATS:
		sources = append(sources, overCoreNATS(d.conn, requestTopic(d.db.prefix)))
	case jetStream:
		sources = append(sources, overJetStream(d.conn, requestTopic(d.db.prefix)))
	case withTargets:
		r.db = d.db
		sources = append(sources, overJetStream(d.conn, requestTopic(d.db.prefix)),
			targetsToStages(d.conn, targetTopic(d.db.prefix), mgr.GetClient()))
	default:
		return nil, fmt.Errorf("there is no variant %q", d.variant)
	}
	sources = append(sources, stageKind(mgr))
	sources = append(sources, freightKinds(mgr)...)
	if d.rollouts {
		sources = append(sources, analysisRunKind(mgr))
	}
	if d.variant != kinds {
		// Stages with requests in flight, in case an event was lost.
		sources = append(sources, list.New(d.stagesWithOpenRequests).Every(2*time.Minute))
	}

	b := reconciler.New[reconcile.Request]("fleet_stage").Workers(d.workers)
	for _, src := range sources {
		b = b.Watch(src)
	}
	return b.Func(r.Reconcile)
}

// stagesWithOpenRequests are the Stages that have a promotion request which has not ended.
func (d *deployment) stagesWithOpenRequests(ctx context.Context) ([]reconcile.Request, error) {
	rows, err := d.db.OpenRequests(ctx)
	if err != nil {
		return nil, err
	}
	var reqs []reconcile.Request
	for _, row := range rows {
		reqs = append(reqs, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: row.Project, Name: row.Stage}})
	}
	return reqs, nil
}
