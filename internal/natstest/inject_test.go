package natstest_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
)

func TestInjectedStatusReachesTheConsumer(t *testing.T) {
	srv := natstest.Start(t)
	provision(t, srv.JetStream(), 1)
	onServer := natstest.WatchPulls(t, srv.Conn(), "ORDERS", "worker")
	proxy, js := behindProxy(t, srv)
	onWire := proxy.Pulls("ORDERS", "worker")
	c, err := js.Consumer(deadline(t), "ORDERS", "worker")
	check(t, "consumer", err)
	reported := make(chan error, 10)
	consuming, err := c.Consume(func(jetstream.Msg) {}, jetstream.PullMaxMessages(7),
		jetstream.PullExpiry(20*time.Second), jetstream.PullHeartbeat(2*time.Second),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { reported <- err }))
	check(t, "consume", err)
	defer consuming.Stop()

	pull := onServer.Last(t)
	if pull.Batch != 7 || pull.Expires != 20*time.Second || pull.Heartbeat != 2*time.Second || pull.NoWait {
		t.Errorf("saw %v", pull)
	}
	wire := onWire.Last(t)
	wire.At = pull.At
	if wire != pull {
		t.Errorf("on the wire %v, at the server %v", wire, pull)
	}
	for _, status := range []struct {
		desc string
		want error
	}{
		{"Leadership Change", jetstream.ErrConsumerLeadershipChanged},
		{"Server Shutdown", jetstream.ErrServerShutdown},
		{"Consumer Deleted", jetstream.ErrConsumerDeleted},
	} {
		natstest.InjectStatus(t, srv.Conn(), pull.Reply, 409, status.desc, nil)
		select {
		case err := <-reported:
			if !errors.Is(err, status.want) {
				t.Errorf("%s reported as %v, want %v", status.desc, err, status.want)
			}
		case <-time.After(natstest.Patience):
			t.Fatalf("%s was not reported", status.desc)
		}
	}
}

// The client cannot tell an injected status from the server's own.
func TestInjectedStatusLooksReal(t *testing.T) {
	srv := natstest.Start(t)
	provision(t, srv.JetStream(), 1)
	conn := srv.Conn()
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	check(t, "subscribe", err)
	request := []byte(`{"batch":1,"expires":1000000}`)
	check(t, "pull", conn.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.ORDERS.worker", inbox, request))
	genuine, err := sub.NextMsg(natstest.Patience)
	check(t, "status", err)

	natstest.InjectStatus(t, srv.Conn(), inbox, 408, "Request Timeout", nats.Header{
		"Nats-Pending-Messages": {"1"}, "Nats-Pending-Bytes": {"0"},
	})
	injected, err := sub.NextMsg(natstest.Patience)
	check(t, "injected status", err)
	if !reflect.DeepEqual(injected.Header, genuine.Header) || len(injected.Data) != len(genuine.Data) {
		t.Errorf("injected %v %q, the server's own is %v %q",
			injected.Header, injected.Data, genuine.Header, genuine.Data)
	}
}
