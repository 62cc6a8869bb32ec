package main

import (
	"context"

	natsgo "github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler/kube"
	"github.com/levelstream/jsource/reconciler/nats"
)

// This file is what the author of a controller writes.

// settings keeps the ConfigMap of each setting in line with the database.
type settings struct {
	client    client.Client
	namespace string
	rows      *database
}

// setup adds the controller to mgr: an ordinary one, built by controller-runtime's builder, that watches ConfigMaps
// and, durably, the database's events.
func (s *settings) setup(mgr ctrl.Manager, conn *natsgo.Conn, durable string) error {
	acks := queue.NewTracker[reconcile.Request]() // what each request owes
	src := jsource.Mapped(conn, s.rows.topic, s.configMapOf).Durable(durable).Track(acks)

	err := ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}).           // somebody has changed it by hand
		WatchesRawSource(kube.Source(src)). // the database has changed
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Named("settings").
		Complete(kube.Wrap(acks, s))
	if err != nil {
		return err
	}
	return mgr.Add(kube.Drain(src)) // on stop, the next leader has at once what is not done
}

// configMapOf maps an event to the ConfigMap it concerns.
func (s *settings) configMapOf(_ context.Context, e nats.Event[string, setting]) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: s.namespace, Name: e.Key}}}
}

// Reconcile implements reconcile.Reconciler.
func (s *settings) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	row, ok := s.rows.Get(req.Name)
	if !ok {
		return reconcile.Result{}, nil // a ConfigMap of somebody else
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, s.client, cm, func() error {
		cm.Data = map[string]string{"value": row.Value}
		return nil
	})
	return reconcile.Result{}, err
}
