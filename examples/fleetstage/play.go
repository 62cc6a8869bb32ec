package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-logr/logr"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/levelstream/jsource/examples/internal/servers"
	"github.com/levelstream/jsource/jsource"
)

// play runs the controller in a namespace of its own and has users do what they do. It fails if a Stage's status does
// not say what it should. It removes what it has made, except for the CRDs.
func play(ctx context.Context, f flags, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "jsource-fleetstage-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log.SetLogger(logr.Discard()) // a real program logs
	fmt.Fprintln(out, "starting the servers")
	k8s, err := servers.OpenKubernetes(f.kubeconfig, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k8s.Close()) }()
	if err := installCRDs(k8s.Config); err != nil {
		return err
	}
	broker, err := servers.OpenNATS(f.nats, dir)
	if err != nil {
		return err
	}
	defer broker.Close()

	scheme, err := newScheme()
	if err != nil {
		return err
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.New(k8s.Config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fleet-"}}
	if err := c.Create(ctx, ns); err != nil {
		return fmt.Errorf("making a namespace: %w", err)
	}
	defer func() { err = errors.Join(err, remove(ns, c, broker.Conn)) }()

	db := &database{prefix: ns.Name, publisher: broker.Conn}
	if f.variant != coreNATS {
		// Returns when the stream has the event; core NATS needs nobody to have it.
		if db.publisher, err = jsource.NewPublisher(broker.Conn); err != nil {
			return err
		}
	}
	d := &deployment{
		config: k8s.Config, project: ns.Name, variant: f.variant, rollouts: f.rollouts,
		conn: broker.Conn, db: db, workers: 4,
	}
	stop, err := d.start(ctx)
	if err != nil {
		return err
	}
	s := &scene{client: c, project: ns.Name, db: db, out: out}
	err = s.play(ctx, f)
	if err == nil && f.keep {
		fmt.Fprintf(out, "\nUntil Ctrl-C: kubectl --kubeconfig %s -n %s get stages\n", k8s.Kubeconfig, ns.Name)
		<-ctx.Done()
	}
	return errors.Join(err, stop())
}

// start runs a replica. It returns when that leads.
func (d *deployment) start(ctx context.Context) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	mgr, err := d.newManager(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop = func() error {
		cancel()
		return <-done
	}
	select {
	case <-mgr.Elected():
		return stop, nil
	case err := <-done:
		cancel()
		return nil, fmt.Errorf("starting the manager: %w", errors.Join(err, ctx.Err()))
	}
}

// remove removes the namespace and the streams of a run.
func remove(ns *corev1.Namespace, c client.Client, conn *natsgo.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	var errs []error
	streams := js.ListStreams(ctx)
	for info := range streams.Info() {
		for _, subject := range info.Config.Subjects {
			if strings.Contains(subject, ns.Name+".") || strings.Contains(subject, ns.Name+"_") {
				errs = append(errs, js.DeleteStream(ctx, info.Config.Name))
				break
			}
		}
	}
	return errors.Join(append(errs, streams.Err(), c.Delete(ctx, ns))...)
}
