package nats_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

var (
	_ reconciler.Source[string] = (*nats.Source[string, order, string])(nil)
	_ nats.Subscriber           = (*natsgo.Conn)(nil)
	_ nats.Publisher            = (*natsgo.Conn)(nil)
)

// describe maps an event to one request that tells all of it.
func describe(_ context.Context, e nats.Event[string, order]) []string {
	text := string(e.Kind) + " " + e.Key
	if e.Old != nil {
		text += fmt.Sprint(" old ", e.Old.Total)
	}
	if e.New != nil {
		text += fmt.Sprint(" new ", e.New.Total)
	}
	return []string{text}
}

func expect(t *testing.T, out <-chan string, want ...string) {
	t.Helper()
	for _, want := range want {
		if got := receive(t, out); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func TestMapped(t *testing.T) {
	conn := newConn(t)
	out, _ := start(t, nats.Mapped(conn, orders, describe))
	must(t, orders.PublishCreated(conn, "a", order{Total: 1}))
	must(t, orders.PublishUpdated(conn, "a", order{Total: 1}, order{Total: 2}))
	must(t, orders.PublishDeleted(conn, "a", order{Total: 2}))
	expect(t, out, "created a new 1", "updated a old 1 new 2", "deleted a old 2")
}

func TestMappedToManyAndToNone(t *testing.T) {
	conn := newConn(t)
	out, _ := start(t, nats.Mapped(conn, orders, func(_ context.Context, e nats.Event[string, order]) []int {
		return slices.Repeat([]int{e.New.Total}, e.New.Total)
	}))
	for _, total := range []int{2, 0, 3} {
		must(t, orders.PublishCreated(conn, "a", order{Total: total}))
	}
	for _, want := range []int{2, 2, 3, 3, 3} {
		if got := receive(t, out); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	}
}

func TestSubject(t *testing.T) {
	conn := newConn(t)
	out, _ := start(t, nats.Subject(conn, orders))
	must(t, orders.PublishCreated(conn, "a", order{}))
	must(t, orders.PublishDeleted(conn, "b", order{}))
	expect(t, out, "a", "b")
}

// When Start has returned, the server knows of the subscription: an event published over another
// connection is not missed.
func TestStartReturnsSubscribed(t *testing.T) {
	srv := runServer(t, &server.Options{Port: -1})
	conn, other := connect(t, srv.ClientURL()), connect(t, srv.ClientURL())
	for i := range 50 {
		out, stop := start(t, nats.Subject(conn, orders))
		must(t, orders.PublishCreated(other, fmt.Sprint(i), order{}))
		expect(t, out, fmt.Sprint(i))
		stop()
	}
}

func TestFilters(t *testing.T) {
	conn := newConn(t)
	none := func(order) bool { return false }
	out, _ := start(t, nats.Mapped(conn, orders, describe).
		OnCreate(none).
		OnDelete(none).
		OnCreate(func(o order) bool { return o.Total > 1 }). // replaces the first
		OnUpdate(func(old, updated order) bool { return old.Total < updated.Total }).
		OnDelete(nil).
		Ignore(nats.Created, nats.Updated).
		Ignore()) // ignores nothing
	for _, total := range []int{1, 2} {
		must(t, orders.PublishCreated(conn, "a", order{Total: total}))
	}
	must(t, orders.PublishUpdated(conn, "a", order{Total: 2}, order{Total: 2}))
	must(t, orders.PublishUpdated(conn, "a", order{Total: 2}, order{Total: 3}))
	must(t, orders.PublishDeleted(conn, "a", order{Total: 3}))
	expect(t, out, "created a new 2", "updated a old 2 new 3", "deleted a old 3")
}

// recorder notes what is subscribed to.
type recorder struct {
	*natsgo.Conn
	subjects []string
}

func (r *recorder) Subscribe(subject string, h natsgo.MsgHandler) (*natsgo.Subscription, error) {
	r.subjects = append(r.subjects, subject)
	return r.Conn.Subscribe(subject, h)
}

func (r *recorder) QueueSubscribe(subject, q string, h natsgo.MsgHandler) (*natsgo.Subscription, error) {
	r.subjects = append(r.subjects, subject+" in "+q)
	return r.Conn.QueueSubscribe(subject, q, h)
}

func TestIgnoreSubscribesToTheOthersOnly(t *testing.T) {
	conn := newConn(t)
	source := func(r *recorder) *nats.Source[string, order, string] { return nats.Mapped(r, orders, describe) }

	all := &recorder{Conn: conn}
	start(t, source(all))
	if want := []string{"shop.orders.>"}; !slices.Equal(all.subjects, want) {
		t.Errorf("subscribed to %q, want %q", all.subjects, want)
	}
	some := &recorder{Conn: conn}
	out, _ := start(t, source(some).Ignore(nats.Updated).QueueGroup("g"))
	want := []string{"shop.orders.created in g", "shop.orders.deleted in g"}
	if !slices.Equal(some.subjects, want) {
		t.Errorf("subscribed to %q, want %q", some.subjects, want)
	}
	must(t, orders.PublishUpdated(conn, "a", order{}, order{}))
	must(t, orders.PublishCreated(conn, "a", order{Total: 1}))
	expect(t, out, "created a new 1")
	must(t, orders.PublishDeleted(conn, "a", order{Total: 2}))
	expect(t, out, "deleted a old 2")
}

// One event at a time, also when Ignore makes it several subscriptions.
func TestMapperIsNotConcurrent(t *testing.T) {
	conn := newConn(t)
	var busy sync.Mutex
	out, _ := start(t, nats.Mapped(conn, orders, func(_ context.Context, e nats.Event[string, order]) []bool {
		alone := busy.TryLock()
		if alone {
			time.Sleep(100 * time.Microsecond) // makes an overlap likely, nothing waits for it
			busy.Unlock()
		}
		return []bool{alone}
	}).Ignore(nats.Updated))
	const n = 100
	for range n {
		must(t, orders.PublishCreated(conn, "a", order{}))
		must(t, orders.PublishDeleted(conn, "a", order{}))
	}
	for range 2 * n {
		if !receive(t, out) {
			t.Fatal("two events are mapped at once")
		}
	}
}

func TestQueueGroup(t *testing.T) {
	srv := runServer(t, &server.Options{Port: -1})
	conn := connect(t, srv.ClientURL())
	merged := make(chan string)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 3 {
		must(t, nats.Subject(connect(t, srv.ClientURL()), orders).QueueGroup("g").Start(ctx, merged))
	}
	const n = 60
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("%02d", i))
		must(t, orders.PublishCreated(conn, want[i], order{}))
	}
	// A second event of a key would take the place of another one.
	var got []string
	for range n {
		got = append(got, receive(t, merged))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestUnusableEventIsLoggedAndDropped(t *testing.T) {
	conn, log := newConn(t), logged(t)
	out, _ := start(t, nats.Mapped(conn, orders, describe))
	must(t, conn.Publish("shop.orders.created", []byte(`{"kind":"created","key":"secret"}`)))
	must(t, conn.Publish("shop.orders.renamed", []byte(`{"kind":"renamed","key":"secret"}`)))
	must(t, orders.PublishCreated(conn, "a", order{Total: 1}))
	expect(t, out, "created a new 1")
	for _, want := range []string{"shop.orders.created", "shop.orders.renamed", "is dropped"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q: %s", want, log)
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the payload was logged: %s", log)
	}
}

func TestPanicIsLoggedAndItsEventDropped(t *testing.T) {
	conn, log := newConn(t), logged(t)
	out, _ := start(t, nats.Mapped(conn, orders, func(ctx context.Context, e nats.Event[string, order]) []string {
		if e.Key == "bad" {
			panic("oh my")
		}
		return describe(ctx, e)
	}).OnDelete(func(o order) bool { panic("oh dear") }))
	must(t, orders.PublishCreated(conn, "bad", order{}))
	must(t, orders.PublishDeleted(conn, "a", order{}))
	must(t, orders.PublishCreated(conn, "a", order{Total: 1}))
	expect(t, out, "created a new 1")
	for _, want := range []string{
		"shop.orders.created", "oh my", "shop.orders.deleted", "oh dear", "source_test.go",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q: %s", want, log)
		}
	}
}

// A topic below another one has events of another type: the upper one leaves them alone.
func TestEventsOfALowerTopicAreNotOurs(t *testing.T) {
	conn, log := newConn(t), logged(t)
	out, _ := start(t, nats.Subject(conn, orders))
	must(t, nats.NewTopic[string, int]("shop.orders.lines").PublishCreated(conn, "line", 1))
	must(t, orders.PublishCreated(conn, "a", order{}))
	expect(t, out, "a")
	if log.String() != "" {
		t.Errorf("logged %s", log)
	}
}

func TestEndOfContextUnsubscribes(t *testing.T) {
	conn := newConn(t)
	_, stop := start(t, nats.Subject(conn, orders).Ignore(nats.Deleted)) // nobody reads the requests
	must(t, orders.PublishCreated(conn, "a", order{}))
	must(t, orders.PublishUpdated(conn, "b", order{}, order{}))
	must(t, conn.Flush())
	if n := conn.NumSubscriptions(); n != 2 {
		t.Errorf("%d subscriptions, want 2", n)
	}
	stop()
	eventually(t, "unsubscribed", func() bool { return conn.NumSubscriptions() == 0 })
	// That no handler hangs in its push is for goleak to find.
}

func TestStartTwice(t *testing.T) {
	conn := newConn(t)
	src := nats.Subject(conn, orders)
	first, stop := start(t, src)
	second, _ := start(t, src)
	must(t, orders.PublishCreated(conn, "a", order{}))
	expect(t, first, "a")
	expect(t, second, "a")
	stop()
	must(t, orders.PublishCreated(conn, "b", order{}))
	expect(t, second, "b")
}

func TestMapperGetsTheSourcesContext(t *testing.T) {
	conn := newConn(t)
	mapping, ended := make(chan struct{}), make(chan struct{})
	mapper := func(ctx context.Context, _ nats.Event[string, order]) []string {
		close(mapping)
		<-ctx.Done()
		close(ended)
		return []string{"late"}
	}
	_, stop := start(t, nats.Mapped(conn, orders, mapper))
	must(t, orders.PublishCreated(conn, "a", order{}))
	<-mapping
	stop()
	<-ended
}

// unusedConn fails the test when it is used.
type unusedConn struct{ t *testing.T }

func (c unusedConn) Subscribe(string, natsgo.MsgHandler) (*natsgo.Subscription, error) {
	c.t.Error("subscribed")
	return nil, errRefused
}

func (c unusedConn) QueueSubscribe(string, string, natsgo.MsgHandler) (*natsgo.Subscription, error) {
	c.t.Error("subscribed")
	return nil, errRefused
}

func TestStartRefuses(t *testing.T) {
	var (
		unused = unusedConn{t: t}
		closed = newConn(t)
		all    = []nats.EventKind{nats.Created, nats.Updated, nats.Deleted}
	)
	closed.Close()
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(errRefused)
	var noConn *natsgo.Conn
	for name, c := range map[string]struct {
		ctx context.Context
		src *nats.Source[string, order, string]
		why string
	}{
		"no conn":       {t.Context(), nats.Subject(nil, orders), "connection is nil"},
		"nil conn":      {t.Context(), nats.Subject(noConn, orders), "invalid connection"},
		"no mapper":     {t.Context(), nats.Mapped[string, order, string](unused, orders, nil), "mapper is nil"},
		"ignore all":    {t.Context(), nats.Subject(unused, orders).Ignore(all...), "leaves no kind"},
		"ignore other":  {t.Context(), nats.Subject(unused, orders).Ignore("renamed"), `Ignore("renamed")`},
		"ended context": {ended, nats.Subject(unused, orders), "refused"},
		"closed conn":   {t.Context(), nats.Subject(closed, orders), "connection closed"},
		"bad group":     {t.Context(), nats.Subject(newConn(t), orders).QueueGroup("a b"), `queue group "a b"`},
	} {
		t.Run(name, func(t *testing.T) {
			mustFail(t, c.src.Start(c.ctx, nil), `NATS source on "shop.orders.>"`, c.why)
		})
	}
}

// A connection that was closed while Start waits ends the wait: no server will answer it.
func TestStartNoticesAClosedConnection(t *testing.T) {
	srv := runServer(t, &server.Options{Port: -1})
	conn := connect(t, srv.ClientURL(), natsgo.ReconnectWait(time.Hour))
	srv.Shutdown()
	eventually(t, "disconnected", conn.IsReconnecting)
	done := make(chan error)
	go func() { done <- nats.Subject(conn, orders).Start(t.Context(), nil) }()
	eventually(t, "subscribed", func() bool { return conn.NumSubscriptions() == 1 })
	conn.Close()
	if err := receive(t, done); !errors.Is(err, natsgo.ErrConnectionClosed) {
		t.Errorf("got %v", err)
	}
}

func portOf(t *testing.T, rawURL string) int {
	t.Helper()
	u, err := url.Parse(rawURL)
	must(t, err)
	port, err := strconv.Atoi(u.Port())
	must(t, err)
	return port
}

func TestStartWaitsForTheServer(t *testing.T) {
	srv := runServer(t, &server.Options{Port: -1})
	addr := srv.ClientURL()
	conn := connect(t, addr, natsgo.ReconnectWait(time.Millisecond), natsgo.MaxReconnects(-1))
	srv.Shutdown()
	srv.WaitForShutdown()
	eventually(t, "disconnected", conn.IsReconnecting)

	out, done := make(chan string), make(chan error)
	go func() { done <- nats.Subject(conn, orders).Start(t.Context(), out) }()
	eventually(t, "subscribed", func() bool { return conn.NumSubscriptions() == 1 })
	select {
	case err := <-done:
		t.Fatalf("Start returned without a server: %v", err)
	default:
	}
	again := runServer(t, &server.Options{Port: portOf(t, addr)})
	must(t, receive(t, done))
	must(t, orders.PublishCreated(connect(t, again.ClientURL()), "a", order{}))
	expect(t, out, "a")
}

func TestStartWaitsNoLongerThanItsContext(t *testing.T) {
	srv := runServer(t, &server.Options{Port: -1})
	conn := connect(t, srv.ClientURL(), natsgo.ReconnectWait(time.Hour))
	srv.Shutdown()
	eventually(t, "disconnected", conn.IsReconnecting)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err := nats.Subject(conn, orders).Start(ctx, nil)
	if mustFail(t, err, "waiting for the NATS server"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if n := conn.NumSubscriptions(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

func TestStartNoticesAMissingPermission(t *testing.T) {
	user := &server.User{Username: "u", Password: "p", Permissions: &server.Permissions{
		Subscribe: &server.SubjectPermission{Deny: []string{"shop.orders.>"}},
	}}
	srv := runServer(t, &server.Options{Port: -1, Users: []*server.User{user}})
	conn := connect(t, srv.ClientURL(), natsgo.UserInfo("u", "p"))
	for range 2 { // the second time there is an error already
		err := nats.Subject(conn, orders).Start(t.Context(), nil)
		mustFail(t, err, `subscribing to "shop.orders.>"`, "allow the connection's user")
		if !errors.Is(err, natsgo.ErrPermissionViolation) {
			t.Errorf("got %v", err)
		}
	}
	err := nats.Subject(conn, orders).QueueGroup("g").Ignore(nats.Created).Start(t.Context(), nil)
	mustFail(t, err, `in queue group "g"`)
	if n := conn.NumSubscriptions(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
	// What was refused earlier is no reason to refuse what is allowed.
	start(t, nats.Subject(conn, nats.NewTopic[string, order]("shop.carts")))
}
