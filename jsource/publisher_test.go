package jsource_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

func newPublisher(tb testing.TB, conn *natsgo.Conn, opts ...jsource.PublisherOption) *jsource.Publisher {
	tb.Helper()
	p, err := jsource.NewPublisher(conn, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// A topic that no stream holds gets one from whoever comes first, publisher or source, and the same one.
func TestWhoComesFirstMakesTheStream(t *testing.T) {
	t.Parallel()
	var configs []jetstream.StreamConfig
	for _, first := range []string{"publisher", "source", "both"} {
		w := newWorld(t)
		var m *member
		switch first {
		case "publisher":
			w.publish("a")
			m = w.join()
		case "source":
			m = w.join()
			w.publish("a")
		default:
			m = w.begin()
			w.publish("a")
			m.waitRunning()
		}
		w.settled()
		m.expectOnce(t, "a")
		cfg := w.mustStream(widgetStream).CachedInfo().Config
		if cfg.MaxAge != 7*24*time.Hour || cfg.Duplicates != 2*time.Minute || cfg.Replicas != 1 ||
			cfg.Retention != jetstream.LimitsPolicy || cfg.Storage != jetstream.FileStorage {
			t.Errorf("made by %s: %+v", first, cfg)
		}
		configs = append(configs, cfg)
		m.stop()
		m.wait()
	}
	for _, cfg := range configs {
		if fmt.Sprint(cfg) != fmt.Sprint(configs[0]) {
			t.Errorf("streams differ: %+v, %+v", cfg, configs[0])
		}
	}
}

// Many publishers and sources at once make one stream.
func TestManyMakeOneStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all sync.WaitGroup
	for i := range 8 {
		conn, p := w.srv.Conn(), newPublisher(t, w.srv.Conn())
		all.Go(func() {
			if _, err := jsource.PublishCreated(t.Context(), p, widgets, fmt.Sprint(i), widget{}); err != nil {
				t.Error(err)
			}
		})
		if i < 3 {
			w.begin(through(conn))
		}
	}
	all.Wait()
	natstest.Eventually(t, "the durable is there", natstest.Patience, func() error {
		_, err := w.js.Consumer(t.Context(), widgetStream, widgetDurable)
		return err
	})
	w.settled()
	if n := w.mustStream(widgetStream).CachedInfo().State.Msgs; n != 8 {
		t.Errorf("%d events are stored, want 8", n)
	}
}

// A Publisher is a publisher of the core-NATS package too, and its events are the same.
func TestPublisherPublishesATopicsEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := newPublisher(t, w.srv.Conn())
	for _, err := range []error{
		widgets.PublishCreated(p, "a", widget{Version: 1}),
		widgets.PublishUpdated(p, "a", widget{Version: 1}, widget{Version: 2}),
		widgets.PublishDeleted(p, "a", widget{Version: 2}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var receipts [3]jsource.Receipt
	for i, publish := range []func() (jsource.Receipt, error){
		func() (jsource.Receipt, error) {
			return jsource.PublishCreated(t.Context(), p, widgets, "a", widget{Version: 1})
		},
		func() (jsource.Receipt, error) {
			return jsource.PublishUpdated(t.Context(), p, widgets, "a", widget{Version: 1}, widget{Version: 2})
		},
		func() (jsource.Receipt, error) {
			return jsource.PublishDeleted(t.Context(), p, widgets, "a", widget{Version: 2})
		},
	} {
		var err error
		if receipts[i], err = publish(); err != nil {
			t.Fatal(err)
		}
		if want := (jsource.Receipt{Stream: widgetStream, Sequence: uint64(4 + i)}); receipts[i] != want {
			t.Errorf("got %+v, want %+v", receipts[i], want)
		}
	}
	s := w.mustStream(widgetStream)
	for seq := uint64(1); seq <= 3; seq++ {
		a, errA := s.GetMsg(t.Context(), seq)
		b, errB := s.GetMsg(t.Context(), seq+3)
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		if a.Subject != b.Subject || string(a.Data) != string(b.Data) || a.Header.Get("Nats-Msg-Id") == "" ||
			a.Header.Get("Nats-Msg-Id") == b.Header.Get("Nats-Msg-Id") {
			t.Errorf("%s %s %v\nand\n%s %s %v", a.Subject, a.Data, a.Header, b.Subject, b.Data, b.Header)
		}
	}
}

// Case 20: the id is the change's. Two changes of one resource are two events, reconciled twice; one change
// that is published twice is one.
func TestMsgIDIsTheChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := make(script)
	defer close(s)
	m := w.join(doing(s.reconcile))
	publish := func(version int) jsource.Receipt {
		r, err := jsource.PublishCreated(t.Context(), w.pub, widgets, "a", widget{Version: version},
			jsource.MsgID(fmt.Sprint("change-", version)))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	one := publish(1)
	m.waitAttempts(t, "a", 1)
	two := publish(2)
	if one.Duplicate || two.Duplicate || two.Sequence != one.Sequence+1 {
		t.Errorf("two changes: %+v, %+v", one, two)
	}
	m.owed("a", 2)
	s.end(t, success)
	s.end(t, success)
	w.settled()

	again := publish(1)
	if !again.Duplicate || again.Sequence != one.Sequence || again.Stream != one.Stream {
		t.Errorf("the first change again: %+v, want a duplicate of %+v", again, one)
	}
	if n := w.mustStream(widgetStream).CachedInfo().State.Msgs; n != 2 {
		t.Errorf("%d events are stored, want 2", n)
	}
	w.settled()
	if n := m.begun()["a"]; n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}
}

// Case 5: a publish outlasts a restart of the server, within its deadline, and what it tries again is stored
// once.
func TestPublishOutlastsARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy := natstest.NewProxy(t, w.srv.URL())
	p := newPublisher(t, natstest.Connect(t, proxy.URL()))
	if _, err := jsource.PublishCreated(t.Context(), p, widgets, "before", widget{}); err != nil {
		t.Fatal(err)
	}

	// The first try arrives and its answer does not.
	proxy.Stall(natstest.ServerToClient)
	result := make(chan error, 1)
	var r jsource.Receipt
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), natstest.Patience)
		defer cancel()
		var err error
		r, err = jsource.PublishCreated(ctx, p, widgets, "a", widget{})
		result <- err
	}()
	natstest.Until(t, "the event is stored", natstest.Patience, func() bool {
		return w.mustStream(widgetStream).CachedInfo().State.LastSeq == 2
	})
	w.srv.Stop()
	proxy.Cut()
	proxy.Resume(natstest.ServerToClient)
	w.srv.Restart()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if r.Sequence != 2 || r.Duplicate {
		t.Errorf("got %+v: it is one event, and no duplicate of another", r)
	}
	if n := w.mustStream(widgetStream).CachedInfo().State.Msgs; n != 2 {
		t.Errorf("%d events are stored, want 2", n)
	}
}

// A publish waits for a server that is not there yet, and for one that is down; within its deadline.
func TestPublishWaitsForTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish("before")
	w.srv.Stop()
	p := newPublisher(t, w.srv.Conn(), jsource.PublisherTimeout(100*time.Millisecond))
	begun := time.Now()
	err := widgets.PublishCreated(p, "late", widget{})
	expectError(t, err, `"shop.widgets.created"`)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("gave up after %v", took)
	}

	result := make(chan error, 1)
	p = newPublisher(t, w.srv.Conn(), jsource.PublisherTimeout(natstest.Patience))
	go func() { result <- widgets.PublishCreated(p, "a", widget{}) }()
	w.srv.Restart()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// Case 21: with a core subscriber on the subject there is no "no responders" when the stream is away: the
// publish tries again all the same.
func TestPublishBesideACoreSubscriber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish("before")
	if _, err := w.srv.Conn().SubscribeSync("shop.widgets.>"); err != nil {
		t.Fatal(err)
	}
	if err := w.js.DeleteStream(t.Context(), widgetStream); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- widgets.PublishCreated(w.pub, "a", widget{}) }()
	natstest.Eventually(t, "the stream is there again", natstest.Patience, func() error {
		_, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: widgetStream, Subjects: []string{"shop.widgets.>"},
		})
		return err
	})
	if err := <-result; err != nil {
		t.Error(err)
	}
	if n := w.mustStream(widgetStream).CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d events are stored, want 1", n)
	}
}

// A stream that is deleted is made again by the next publish.
func TestPublishMakesTheStreamAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish("a")
	if err := w.js.DeleteStream(t.Context(), widgetStream); err != nil {
		t.Fatal(err)
	}
	if r := w.publish("b")[0]; r.Sequence != 1 || r.Stream != widgetStream {
		t.Errorf("got %+v", r)
	}
}

// Case 21: a publish outlasts the death of the stream's leader in a cluster, within its deadline.
func TestPublishOutlastsItsStreamsLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("an election takes seconds")
	}
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	js := c.JetStream()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: widgetStream, Subjects: []string{"shop.widgets.>"}, Replicas: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	leader := c.StreamLeader(widgetStream)
	p := newPublisher(t, c.Follower(widgetStream).Conn(), jsource.PublisherTimeout(natstest.Patience))
	const publishers, each = 4, 25
	var all sync.WaitGroup
	halfway := make(chan struct{}, publishers)
	for i := range publishers {
		all.Go(func() {
			for n := range each {
				if n == each/2 {
					halfway <- struct{}{}
				}
				r, err := jsource.PublishCreated(t.Context(), p, widgets, fmt.Sprintf("%d-%d", i, n), widget{})
				if err != nil || r.Sequence == 0 || r.Duplicate {
					t.Errorf("%+v: %v", r, err)
				}
			}
		})
	}
	<-halfway
	leader.Stop()
	all.Wait()
	keys := map[string]int{}
	stream, err := js.Stream(t.Context(), widgetStream)
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		msg, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		e, err := widgets.Decode(msg.Subject, msg.Data)
		if err != nil {
			t.Fatal(err)
		}
		keys[e.Key]++
	}
	if len(keys) != publishers*each {
		t.Errorf("%d events are stored, want %d", len(keys), publishers*each)
	}
	for key, n := range keys {
		if n != 1 {
			t.Errorf("%s is stored %d times", key, n)
		}
	}
}

// What cannot work fails at once, with an error that says why.
func TestPublishErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for subject, why := range map[string]string{
		"shop.widgets":           "should end in .created, .updated or .deleted",
		"shop.widgets.renamed":   "should end in .created, .updated or .deleted",
		"":                       "should end in",
		".created":               "empty",
		"created":                "should end in",
		"shop.*.created":         "wildcard",
		"shop widgets.created":   "whitespace",
		"$JS.API.created":        "$",
		"shop.widgets.created.>": "should end in",
	} {
		expectError(t, w.pub.Publish(subject, []byte("{}")), fmt.Sprintf("publishing to %q", subject), why)
	}
	_, err := jsource.PublishCreated(t.Context(), w.pub, nats.NewTopic[string, widget]("a..b"), "a", widget{})
	expectError(t, err, `prefix "a..b"`)
	_, err = jsource.PublishCreated(t.Context(), w.pub, nats.NewTopic[string, chan int]("a.b"), "a", nil)
	expectError(t, err, "a.b", "chan int")
	w.untouched()

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = jsource.PublishCreated(ended, w.pub, widgets, "a", widget{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	expectError(t, err, `"shop.widgets.created"`)

	conn := w.srv.Conn()
	p := newPublisher(t, conn)
	if err := widgets.PublishCreated(p, "a", widget{}); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	err = widgets.PublishCreated(p, "a", widget{})
	if !errors.Is(err, natsgo.ErrConnectionClosed) {
		t.Errorf("on a closed connection: %v", err)
	}
	expectError(t, err, `"shop.widgets.created"`)

	_, err = jsource.NewPublisher(nil)
	expectError(t, err, "connection is nil")
	_, err = jsource.NewPublisher(w.srv.Conn(), jsource.PublisherTimeout(-1))
	expectError(t, err, "timeout -1ns")
}

// A payload that no server takes is an error at once.
func TestPublishTooLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, natstest.WithConfig(func(o *server.Options) { o.MaxPayload = 1024 }))
	w.publish("a")
	err := w.pub.Publish("shop.widgets.created", make([]byte, 2000))
	if !errors.Is(err, natsgo.ErrMaxPayload) {
		t.Errorf("got %v", err)
	}
}

// A stream that is full refuses, until the deadline; the error says so.
func TestPublishIntoAFullStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "FULL", Subjects: []string{"shop.widgets.>"}, MaxMsgs: 1, Discard: jetstream.DiscardNew,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.publish("a")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = jsource.PublishCreated(ctx, w.pub, widgets, "b", widget{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	expectError(t, err, "may or may not be stored", "maximum messages exceeded")
}

// A stream that does not confirm what it stores, or confirms what it does not, is refused.
func TestPublisherRefusesStreamsThatLie(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]jetstream.StreamConfig{
		"no_ack is true":        {Name: "ODD", Subjects: []string{"shop.>"}, NoAck: true},
		"retention is Interest": {Name: "ODD", Subjects: []string{"shop.>"}, Retention: jetstream.InterestPolicy},
	} {
		w := newWorld(t)
		if _, err := w.js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		_, err := jsource.PublishCreated(t.Context(), w.pub, widgets, "a", widget{})
		expectError(t, err, `"shop.widgets.created"`, `stream "ODD"`, want)
	}
}

// PublisherStream: the stream is made as asked for; one that holds the topic is used as it is.
func TestPublisherStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := jetstream.StreamConfig{Name: "MINE", MaxAge: time.Hour}
	p := newPublisher(t, w.srv.Conn(), jsource.PublisherStream(cfg))
	r, err := jsource.PublishCreated(t.Context(), p, widgets, "a", widget{})
	if err != nil || r.Stream != "MINE" {
		t.Fatalf("%+v: %v", r, err)
	}
	is := w.mustStream("MINE").CachedInfo().Config
	if is.MaxAge != time.Hour || is.Subjects[0] != "shop.widgets.>" {
		t.Errorf("it is %+v", is)
	}
	p = newPublisher(t, w.srv.Conn(), jsource.PublisherStream(jetstream.StreamConfig{Name: "OTHER"}))
	if r, err = jsource.PublishCreated(t.Context(), p, widgets, "b", widget{}); err != nil || r.Stream != "MINE" {
		t.Errorf("%+v: %v", r, err)
	}
}

// Without JetStream, on the server or for the account, source and publisher say so soon instead of waiting.
func TestWithoutJetStream(t *testing.T) {
	t.Parallel()
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		srv := natstest.Start(t, natstest.WithConfig(func(o *server.Options) { o.JetStream = false }))
		expectNoJetStream(t, srv.Conn(), "there is no JetStream", srv.Addr(), "enable it")
	})
	t.Run("account", func(t *testing.T) {
		t.Parallel()
		srv := natstest.Start(t, natstest.WithConfigText(
			`accounts: { A: { users: [{user: a, password: a}] }, B: { jetstream: enabled } }`))
		expectNoJetStream(t, srv.Conn(natsgo.UserInfo("a", "a")), "not enabled for account")
	})
}

func expectNoJetStream(t *testing.T, conn *natsgo.Conn, words ...string) {
	t.Helper()
	begun := time.Now()
	p := newPublisher(t, conn, jsource.PublisherTimeout(natstest.Patience))
	expectError(t, widgets.PublishCreated(p, "a", widget{}), append(words, `"shop.widgets.created"`)...)
	c, err := reconciler.New[string](keeper).Watch(jsource.Subject(conn, widgets)).Reconciler(new(ledger))
	if err != nil {
		t.Fatal(err)
	}
	expectError(t, c.Start(t.Context()), append(words, `controller "keeper"`, "shop.widgets")...)
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("it took %v to say so", took)
	}
}

// A JetStream of one's own, for a domain say, is used by publisher and source instead of the connection's.
func TestJetStreamOfOnesOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, natstest.WithConfig(func(o *server.Options) { o.JetStreamDomain = "hub" }))
	other := newWorld(t)
	js, err := jetstream.NewWithDomain(w.srv.Conn(), "hub")
	if err != nil {
		t.Fatal(err)
	}
	p := newPublisher(t, other.srv.Conn(), jsource.PublisherJetStream(js))
	r, err := jsource.PublishCreated(t.Context(), p, widgets, "a", widget{})
	if err != nil {
		t.Fatal(err)
	}
	m := w.join(through(other.srv.Conn()), withSource(func(s *widgetSource) { s.JetStream(js) }))
	w.waitSaid(r.Sequence, "ack of delivery 1")
	w.settled()
	m.expectOnce(t, "a")
	other.untouched()
}
