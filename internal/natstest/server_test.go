package natstest_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
)

// provision makes a stream of one subject tree and a durable on it.
func provision(tb testing.TB, js jetstream.JetStream, replicas int) jetstream.Consumer {
	tb.Helper()
	ctx := deadline(tb)
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "ORDERS", Subjects: []string{"orders.>"}, Replicas: replicas,
	})
	if err != nil {
		tb.Fatalf("create stream: %v", err)
	}
	c, err := js.CreateConsumer(ctx, "ORDERS", jetstream.ConsumerConfig{
		Durable: "worker", AckPolicy: jetstream.AckExplicitPolicy, AckWait: natstest.Patience,
	})
	if err != nil {
		tb.Fatalf("create consumer: %v", err)
	}
	return c
}

func publish(tb testing.TB, js jetstream.JetStream, subject string) {
	tb.Helper()
	if _, err := js.Publish(deadline(tb), subject, []byte(subject)); err != nil {
		tb.Fatalf("publish %s: %v", subject, err)
	}
}

// next pulls one message.
func next(tb testing.TB, c jetstream.Consumer) jetstream.Msg {
	tb.Helper()
	msg, err := c.Next(jetstream.FetchMaxWait(natstest.Patience))
	if err != nil {
		tb.Fatalf("next message: %v", err)
	}
	return msg
}

func deadline(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), natstest.Patience)
	tb.Cleanup(cancel)
	return ctx
}

// short is a context for what may not succeed.
func short(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	tb.Cleanup(cancel)
	return ctx
}

func check(tb testing.TB, what string, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%s: %v", what, err)
	}
}

func TestRestartKeepsMessagesPortAndConsumer(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream()
	c := provision(t, js, 1)
	for range 3 {
		publish(t, js, "orders.created")
	}
	check(t, "ack", next(t, c).DoubleAck(deadline(t)))
	before := srv.URL()

	srv.Restart()

	if srv.URL() != before {
		t.Errorf("URL is %s after the restart, was %s", srv.URL(), before)
	}
	natstest.WaitConnected(t, js.Conn())
	info := natstest.ConsumerInfo(t, js, "ORDERS", "worker")
	if info.AckFloor.Stream != 1 || info.NumPending != 2 {
		t.Errorf("after the restart: ack floor %d, %d pending, want 1 and 2", info.AckFloor.Stream, info.NumPending)
	}
	for want := uint64(2); want <= 3; want++ {
		msg := next(t, c)
		meta, err := msg.Metadata()
		check(t, "metadata", err)
		if meta.Sequence.Stream != want {
			t.Errorf("message %d, want %d", meta.Sequence.Stream, want)
		}
		check(t, "ack", msg.DoubleAck(deadline(t)))
	}
	natstest.WaitSettled(t, js, "ORDERS", "worker")
}

func TestStoppedServerRefusesUntilRestarted(t *testing.T) {
	srv := natstest.Start(t)
	srv.Stop()
	srv.Stop() // does nothing
	conn := srv.Conn()
	if conn.IsConnected() {
		t.Fatal("connected to a stopped server")
	}
	srv.Restart()
	natstest.WaitConnected(t, conn)
}

func TestConfigIsAppliedAtEveryStart(t *testing.T) {
	starts := 0
	srv := natstest.Start(t, natstest.WithConfig(func(o *server.Options) {
		starts++
		o.JetStreamDomain = "hub"
	}))
	srv.Restart()
	if starts != 2 {
		t.Errorf("configured %d times, want 2", starts)
	}
	if got := srv.Server().JetStreamConfig().Domain; got != "hub" {
		t.Errorf("domain %q, want hub", got)
	}
}

const tenants = `
accounts: {
	A: {jetstream: enabled, users: [{user: a, password: a}]}
	B: {users: [{user: b, password: b}]}
}`

func TestConfigTextMakesAccounts(t *testing.T) {
	srv := natstest.Start(t, natstest.WithConfigText(tenants))
	provision(t, srv.JetStream(nats.UserInfo("a", "a")), 1)
	srv.Restart()
	js := srv.JetStream(nats.UserInfo("a", "a"))
	publish(t, js, "orders.created")
	if n := natstest.ConsumerInfo(t, js, "ORDERS", "worker").NumPending; n != 1 {
		t.Errorf("%d pending, want 1", n)
	}
	if _, err := srv.JetStream(nats.UserInfo("b", "b")).Stream(deadline(t), "ORDERS"); err == nil {
		t.Error("an account without JetStream has the other's stream")
	}
}

func TestReconfigureTakesRightsAndGivesThemBack(t *testing.T) {
	user := func(deny ...string) func(*server.Options) {
		return func(o *server.Options) {
			o.Users = []*server.User{{Username: "u", Password: "u", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: deny},
			}}}
		}
	}
	srv := natstest.Start(t, natstest.WithConfig(user()))
	js := srv.JetStream(nats.UserInfo("u", "u"))
	provision(t, js, 1)
	publish(t, js, "orders.created")
	srv.Reconfigure(user("orders.>"))
	natstest.Until(t, "publishing is denied", natstest.Patience, func() bool {
		_, err := js.Publish(short(t), "orders.created", nil)
		return errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, context.DeadlineExceeded)
	})
	srv.Reconfigure(user())
	natstest.Eventually(t, "publishing is allowed", natstest.Patience, func() error {
		_, err := js.Publish(short(t), "orders.created", nil)
		return err
	})
}

func TestRestartWaitsForItsPort(t *testing.T) {
	srv := natstest.Start(t)
	srv.Stop()
	squatter, err := net.Listen("tcp", srv.Addr())
	check(t, "listen", err)
	released := make(chan struct{})
	go func() {
		defer close(released)
		// Long enough for a first attempt to fail on most machines; the test holds on all.
		time.Sleep(aMoment)
		squatter.Close()
	}()
	srv.Restart()
	<-released
	check(t, "flush", srv.Conn().FlushTimeout(natstest.Patience))
}
