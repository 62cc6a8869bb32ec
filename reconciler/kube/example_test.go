package kube_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/kube"
	"github.com/levelstream/jsource/reconciler/nats"
)

// setting is a row of a database; what it says is kept in a ConfigMap of the same name.
type setting struct {
	Value string `json:"value"`
}

var settings = nats.NewTopic[string, setting]("shop.settings")

// configMapOf maps an event of a setting to its ConfigMap.
func configMapOf(_ context.Context, e nats.Event[string, setting]) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: "shop", Name: e.Key}}}
}

// A controller of this module in a manager, with leader election. It watches a Kubernetes kind, with
// controller-runtime's own handlers and predicates, and, durably, the events of a database.
func ExampleKind() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{LeaderElection: true, LeaderElectionID: "settings"})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := natsgo.Connect(natsgo.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	rows := jsource.Mapped(conn, settings, configMapOf)
	controller, err := reconciler.New[reconcile.Request]("settings").
		Watch(
			kube.Kind(mgr.GetCache(), client.Object(&corev1.ConfigMap{}), &handler.EnqueueRequestForObject{},
				predicate.ResourceVersionChangedPredicate{}),
			rows,
		).
		Workers(4).
		Func(func(context.Context, reconcile.Request) (reconciler.Result, error) {
			return reconciler.Result{}, nil // bring the ConfigMap in line with the row
		})
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Add(kube.Runnable(controller)); err != nil {
		log.Fatal(err)
	}
	if err := mgr.AddReadyzCheck("settings", rows.Check); err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}

// A controller whose requests are not Kubernetes names: it works on teams, and each namespace says whose it is. When
// a namespace changes hands, both teams are looked at.
func ExampleKeyed() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	namespaces := kube.Keyed(mgr.GetCache(), &corev1.Namespace{}, func(_ context.Context, ns *corev1.Namespace) []string {
		if team := ns.Labels["team"]; team != "" {
			return []string{team}
		}
		return nil
	})
	controller, err := reconciler.New[string]("teams").Watch(namespaces).
		Func(func(context.Context, string) (reconciler.Result, error) { return reconciler.Result{}, nil })
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Add(kube.Runnable(controller)); err != nil {
		log.Fatal(err)
	}
}

// Every replica runs the controller, not only the leader: its durable source is told that they share the events.
func ExampleWithoutLeaderElection() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := natsgo.Connect(natsgo.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	controller, err := reconciler.New[string]("prices").Watch(jsource.Subject(conn, settings).Durable("prices")).
		Func(func(context.Context, string) (reconciler.Result, error) { return reconciler.Result{}, nil })
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Add(kube.Runnable(controller, kube.WithoutLeaderElection())); err != nil {
		log.Fatal(err)
	}
}

// A plain controller-runtime controller watches a durable source: Track and Wrap keep account of what is owed, Drain
// gives back what is left when the manager stops.
func ExampleSource() {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := natsgo.Connect(natsgo.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	r := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, nil // bring the ConfigMap in line with the row
	})

	acks := queue.NewTracker[reconcile.Request]()
	src := jsource.Mapped(conn, settings, configMapOf).Durable("settings").Track(acks)
	err = ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}).
		WatchesRawSource(kube.Source(src)).
		Complete(kube.Wrap(acks, r))
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Add(kube.Drain(src)); err != nil {
		log.Fatal(err)
	}
}

// A Reconciler that means "not yet" by RequeueAfter: the policy keeps messages owed until it has done its work.
func ExampleWrapPolicy() {
	acks := queue.NewTracker[reconcile.Request]()
	r := kube.WrapPolicy(acks,
		func(res reconcile.Result, err error) queue.Outcome {
			if err == nil && res.RequeueAfter > 0 {
				return queue.Unfinished
			}
			return kube.Outcome(res, err)
		},
		reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: time.Minute}, nil
		}))
	_ = r // for the builder's Complete
}

// What the returns of a controller-runtime Reconciler mean for the messages that asked for the attempt.
func ExampleOutcome() {
	fmt.Println(kube.Outcome(reconcile.Result{}, nil))
	fmt.Println(kube.Outcome(reconcile.Result{RequeueAfter: time.Minute}, nil))
	fmt.Println(kube.Outcome(reconcile.Result{}, errors.New("the database is down")))
	fmt.Println(kube.Outcome(reconcile.Result{}, reconcile.TerminalError(errors.New("no such row"))))
	// Output:
	// success
	// success
	// failed
	// dead
}

// The metrics of sources and controllers appear on the endpoint that the manager serves its own on.
func ExampleMeterProvider() {
	provider, err := kube.MeterProvider() // once in a process, before controllers start
	if err != nil {
		log.Fatal(err)
	}
	otel.SetMeterProvider(provider)
}
