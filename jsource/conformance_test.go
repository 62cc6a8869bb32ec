package jsource_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// The conformance suite: what a source of a topic's events does for its user, run on the core-NATS source and
// on the JetStream one, so that replacing the one by the other is a matter of one word. It publishes on a
// plain connection, as users of the core-NATS source do. Where the two are meant to differ, the case says so.
func TestConformance(t *testing.T) {
	t.Run("core NATS", implementation[*nats.Source[string, widget, string]]{
		mapped: func(conn *natsgo.Conn, topic widgetTopic, m widgetMapper) *nats.Source[string, widget, string] {
			return nats.Mapped(conn, topic, m)
		},
		subject: func(conn *natsgo.Conn, topic widgetTopic) *nats.Source[string, widget, string] {
			return nats.Subject(conn, topic)
		},
	}.run)
	t.Run("JetStream", implementation[*widgetSource]{
		mapped:  jsource.Mapped[string, widget, string],
		subject: jsource.Subject[string, widget],
		durable: true,
	}.run)
}

type (
	widgetTopic  = nats.Topic[string, widget]
	widgetMapper = nats.Mapper[string, widget, string]
)

// conforming is what the two sources have in common: they are started by an engine, named in its logs, and
// have the five filters, each of which returns the source itself.
type conforming[S any] interface {
	reconciler.Source[string]
	fmt.Stringer
	OnCreate(pass func(created widget) bool) S
	OnUpdate(pass func(old, updated widget) bool) S
	OnDelete(pass func(old widget) bool) S
	Ignore(kinds ...nats.EventKind) S
	QueueGroup(name string) S
}

// implementation is one of the two.
type implementation[S conforming[S]] struct {
	mapped  func(conn *natsgo.Conn, topic widgetTopic, m widgetMapper) S
	subject func(conn *natsgo.Conn, topic widgetTopic) S
	durable bool // what it did not get done is handed out again
}

func (im implementation[S]) run(t *testing.T) {
	srv := natstest.Start(t)
	for i, c := range []struct {
		name string
		test func(conformance[S])
	}{
		{"Subject requests the key", conformance[S].subjectRequestsTheKey},
		{"Mapped requests what the mapper returns", conformance[S].mappedRequestsWhatTheMapperReturns},
		{"events are as their kind demands", conformance[S].eventsAreAsTheirKindDemands},
		{"events reach the mapper in order", conformance[S].inOrder},
		{"one event at a time", conformance[S].oneAtATime},
		{"the event is the mapper's own", conformance[S].theEventIsTheMappersOwn},
		{"several requests from one event", conformance[S].severalRequests},
		{"the same request twice from one event", conformance[S].duplicates},
		{"no request from an event", conformance[S].noRequest},
		{"requests de-duplicate", conformance[S].deduplicate},
		{"OnCreate", conformance[S].onCreate},
		{"OnUpdate", conformance[S].onUpdate},
		{"OnDelete", conformance[S].onDelete},
		{"Ignore", conformance[S].ignore},
		{"the last filter counts", conformance[S].lastFilterCounts},
		{"QueueGroup shares", conformance[S].queueGroupShares},
		{"QueueGroups each get all", conformance[S].queueGroupsEachGetAll},
		{"QueueGroup of another controller", conformance[S].queueGroupOfAnother},
		{"controllers each get all", conformance[S].controllersEachGetAll},
		{"without QueueGroup", conformance[S].withoutQueueGroup},
		{"a panicking mapper", conformance[S].panickingMapper},
		{"a panicking filter", conformance[S].panickingFilter},
		{"an undecodable event", conformance[S].undecodable},
		{"a lower topic's events", conformance[S].lowerTopic},
		{"the mapper's context", conformance[S].mappersContext},
		{"jsource.Publisher", conformance[S].publisher},
		{"events while it is stopped", conformance[S].whileStopped},
		{"errors of Start", conformance[S].errorsOfStart},
		{"started twice", conformance[S].startedTwice},
		{"a server that comes later", conformance[S].serverComesLater},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.test(conformance[S]{
				T: t, implementation: im, srv: srv, conn: srv.Conn(),
				topic: nats.NewTopic[string, widget](fmt.Sprintf("conformance.case%d", i)),
				log:   slog.New(slog.NewTextHandler(testLog(t), nil)),
			})
		})
	}
}

// conformance is one case of the suite, with a topic of its own.
type conformance[S conforming[S]] struct {
	*testing.T
	implementation[S]
	srv   *natstest.Server
	conn  *natsgo.Conn
	topic widgetTopic
	log   *slog.Logger
}

// controller runs a controller with one worker on the sources, until the test ends or it is stopped.
func (c conformance[S]) controller(name string, srcs ...reconciler.Source[string]) *member {
	c.Helper()
	m := c.start(name, srcs...)
	m.waitRunning()
	return m
}

func (c conformance[S]) start(name string, srcs ...reconciler.Source[string]) *member {
	c.Helper()
	m := &member{tb: c.T, running: make(chan struct{}), done: make(chan struct{})}
	var err error
	if m.ctl, err = reconciler.New[string](name).Logger(c.log).Watch(srcs...).Watch(started(m.running)).Reconciler(m); err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go func() {
		defer close(m.done)
		m.err = m.ctl.Start(ctx)
	}()
	c.Cleanup(m.end)
	return m
}

// created publishes that the keys were created, updated and deleted likewise; they return when the server has
// it all.
func (c conformance[S]) created(keys ...string) {
	c.Helper()
	for _, key := range keys {
		c.check(c.topic.PublishCreated(c.conn, key, widget{Version: 1}))
	}
	c.check(c.conn.FlushTimeout(natstest.Patience))
}

func (c conformance[S]) updated(key string, old, updated widget) {
	c.Helper()
	c.check(c.topic.PublishUpdated(c.conn, key, old, updated))
	c.check(c.conn.FlushTimeout(natstest.Patience))
}

func (c conformance[S]) deleted(key string, old widget) {
	c.Helper()
	c.check(c.topic.PublishDeleted(c.conn, key, old))
	c.check(c.conn.FlushTimeout(natstest.Patience))
}

func (c conformance[S]) check(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// last publishes one more event, which is in order behind all others, and waits until it is reconciled:
// whatever the others ask for has been then, since there is one worker.
func (c conformance[S]) last(m *member) {
	c.Helper()
	c.created("last")
	m.waitDone(c.T, "last")
}

// expectOnly checks that the members, together, reconciled each request once, and nothing else but "last".
func (c conformance[S]) expectOnly(m *member, reqs ...string) {
	c.Helper()
	m.expectOnce(c.T, append(reqs, "last")...)
}
