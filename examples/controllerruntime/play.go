package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/levelstream/jsource/examples/internal/servers"
	"github.com/levelstream/jsource/jsource"
)

// bound is how long anything may take here.
const bound = 2 * time.Minute

// play runs the controller, changes settings in the database and in the cluster, and looks whether the ConfigMaps
// follow. It removes what it has made.
func play(ctx context.Context, f flags, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "jsource-controllerruntime-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctrl.SetLogger(logr.Discard()) // a real program logs
	fmt.Fprintln(out, "starting the servers")
	k8s, err := servers.OpenKubernetes(f.kubeconfig, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k8s.Close()) }()
	broker, err := servers.OpenNATS(f.nats, dir)
	if err != nil {
		return err
	}
	defer broker.Close()

	c, err := client.New(k8s.Config, client.Options{})
	if err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "settings-"}}
	if err := c.Create(ctx, ns); err != nil {
		return fmt.Errorf("making a namespace: %w", err)
	}
	defer func() { err = errors.Join(err, remove(ns, c, broker.Conn)) }()

	publisher, err := jsource.NewPublisher(broker.Conn)
	if err != nil {
		return err
	}
	rows := &database{topic: settingEvents(ns.Name), publisher: publisher, rows: map[string]setting{}}
	stop, err := start(ctx, k8s, broker.Conn, ns.Name, rows)
	if err != nil {
		return err
	}
	err = change(ctx, f, out, c, ns.Name, rows, broker.Conn)
	return errors.Join(err, stop())
}

// start runs a manager with the controller. stop stops both.
func start(ctx context.Context, k8s *servers.Kubernetes, conn *natsgo.Conn, namespace string, rows *database) (
	stop func() error, err error,
) {
	again := true
	o := ctrl.Options{
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "settings",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true, // the next leader need not wait for the lease to end
	}
	o.Controller.SkipNameValidation = &again // for a test that runs it twice
	mgr, err := ctrl.NewManager(k8s.Config, o)
	if err != nil {
		return nil, fmt.Errorf("making a manager: %w", err)
	}
	s := &settings{client: mgr.GetClient(), namespace: namespace, rows: rows}
	if err := s.setup(mgr, conn, namespace); err != nil {
		return nil, fmt.Errorf("making the controller: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() error {
		cancel()
		return <-done
	}, nil
}

// change changes settings, waits until that is reconciled, and reads the ConfigMaps as anybody would.
func change(ctx context.Context, f flags, out io.Writer, c client.Client, namespace string, rows *database, conn *natsgo.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var last jsource.Receipt
	for i := range f.settings {
		for _, value := range []string{"draft", "final"} {
			var err error
			if last, err = rows.Put(ctx, fmt.Sprintf("setting-%d", i), value); err != nil {
				return fmt.Errorf("changing a setting: %w", err)
			}
		}
	}
	fmt.Fprintf(out, "%d changes committed and published\n", 2*f.settings)
	// The durable exists once the manager leads.
	for {
		err := jsource.WaitReconciled(ctx, conn, namespace, last)
		if err == nil {
			break
		}
		if ctx.Err() != nil || !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("waiting until all is reconciled: %w", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	var list corev1.ConfigMapList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return err
	}
	right := 0
	for _, cm := range list.Items {
		if cm.Data["value"] == "final" {
			right++
		}
	}
	fmt.Fprintf(out, "all reconciled: %d of %d ConfigMaps say what the database says\n", right, f.settings)
	if right != f.settings {
		return errors.New("the cluster does not follow the database")
	}
	return nil
}

// remove removes the namespace and, from a server that is somebody's, the streams.
func remove(ns *corev1.Namespace, c client.Client, conn *natsgo.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	name, err := js.StreamNameBySubject(ctx, ns.Name+".settings.created")
	if err == nil {
		err = errors.Join(js.DeleteStream(ctx, name), js.DeleteStream(ctx, name+"-dead"))
	}
	return errors.Join(err, c.Delete(ctx, ns))
}
