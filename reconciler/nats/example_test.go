package nats_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/reconciler/nats"
)

// Target is a row of a database.
type Target struct {
	Project string
	Labels  map[string]string
	Status  string
}

// TargetKey is its primary key.
type TargetKey struct{ Project, Name string }

// targets is declared once, beside the store.
var targets = nats.NewTopic[TargetKey, Target]("kargo.targets")

// connectForExample stands for a connection to a server of one's own.
func connectForExample() (conn *natsgo.Conn, stop func()) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		log.Fatal(err)
	}
	srv.Start()
	srv.ReadyForConnections(10 * time.Second)
	closed := make(chan struct{})
	conn, err = natsgo.Connect(srv.ClientURL(), natsgo.ClosedHandler(func(*natsgo.Conn) { close(closed) }))
	if err != nil {
		log.Fatal(err)
	}
	return conn, func() {
		conn.Close()
		<-closed
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

// A controller of projects is woken by the targets in them. It is handed the source with
// Watch(source), which starts it; here it is started by hand to show what it pushes.
func ExampleMapped() {
	conn, disconnect := connectForExample()
	defer disconnect()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	source := nats.Mapped(conn, targets, func(_ context.Context, e nats.Event[TargetKey, Target]) []string {
		return []string{e.Key.Project}
	}).
		OnUpdate(func(old, updated Target) bool { return old.Status != updated.Status }).
		Ignore(nats.Deleted)

	requests := make(chan string)
	if err := source.Start(ctx, requests); err != nil {
		log.Fatal(err)
	}
	target := Target{Project: "demo", Status: "ready"}
	if err := targets.PublishCreated(conn, TargetKey{"demo", "eu-1"}, target); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-requests)
	// Output: demo
}

// A controller of the resources themselves needs no mapper: its requests are the keys.
func ExampleSubject() {
	conn, disconnect := connectForExample()
	defer disconnect()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	requests := make(chan TargetKey)
	if err := nats.Subject(conn, targets).Start(ctx, requests); err != nil {
		log.Fatal(err)
	}
	if err := targets.PublishDeleted(conn, TargetKey{"demo", "eu-1"}, Target{Project: "demo"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-requests)
	// Output: {demo eu-1}
}

// With a queue group, each event goes to one of the replicas instead of to all of them.
func ExampleSource_QueueGroup() {
	conn, disconnect := connectForExample()
	defer disconnect()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	requests := make(chan TargetKey)
	for range 2 { // two replicas
		if err := nats.Subject(conn, targets).QueueGroup("targets").Start(ctx, requests); err != nil {
			log.Fatal(err)
		}
	}
	for _, name := range []string{"eu-1", "eu-2"} {
		if err := targets.PublishCreated(conn, TargetKey{"demo", name}, Target{}); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(<-requests)
	fmt.Println(<-requests)
	// Unordered output:
	// {demo eu-1}
	// {demo eu-2}
}

// Publish after the change was committed. The values before and after it let the sources filter.
func ExampleTopic_PublishUpdated() {
	conn, disconnect := connectForExample()
	defer disconnect()

	old := Target{Project: "demo", Status: "pending"}
	updated := Target{Project: "demo", Status: "ready"}
	if err := targets.PublishUpdated(conn, TargetKey{"demo", "eu-1"}, old, updated); err != nil {
		log.Fatal(err)
	}
}

func ExampleTopic_SubjectOf() {
	fmt.Println(targets.Subject())
	fmt.Println(targets.SubjectOf(nats.Updated))
	// Output:
	// kargo.targets.>
	// kargo.targets.updated
}

// Decode refuses what no mapper should see, and says why without quoting it.
func ExampleTopic_Decode() {
	_, err := targets.Decode("kargo.targets.deleted", []byte(`{"kind":"deleted","key":{"Name":"eu-1"}}`))
	fmt.Println(err)
	// Output: decoding the event on "kargo.targets.deleted": it has no "old", the resource before the change
}

func ExampleTopic_Encode() {
	data, err := targets.Encode(nats.Event[TargetKey, Target]{
		Kind: nats.Created,
		Key:  TargetKey{"demo", "eu-1"},
		New:  &Target{Project: "demo"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(data))
	// Output: {"kind":"created","key":{"Project":"demo","Name":"eu-1"},"new":{"Project":"demo","Labels":null,"Status":""}}
}
