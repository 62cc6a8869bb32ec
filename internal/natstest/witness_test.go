package natstest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
)

// Both witnesses see every kind with the sequences of the delivery it answers, in either layout of
// ack replies.
func TestWitnessSeesEverySettlement(t *testing.T) {
	for name, config := range map[string]func(*server.Options){
		"plain":  func(*server.Options) {},
		"domain": func(o *server.Options) { o.JetStreamDomain = "hub" },
		"scoped": func(o *server.Options) {
			o.FeatureFlags = map[string]bool{server.FeatureFlagJsAckFormatV2: true}
		},
		"scoped in a domain": func(o *server.Options) {
			o.JetStreamDomain = "hub"
			o.FeatureFlags = map[string]bool{server.FeatureFlagJsAckFormatV2: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := natstest.Start(t, natstest.WithConfig(config))
			provision(t, srv.JetStream(), 1)
			onServer := natstest.Watch(t, srv.Conn(), "ORDERS", "worker")
			proxy, js := behindProxy(t, srv)
			onWire := proxy.Watch("ORDERS", "worker")
			c, err := js.Consumer(deadline(t), "ORDERS", "worker")
			check(t, "consumer", err)

			var stored []time.Time // by sequence, from 1
			deliver := func() jetstream.Msg {
				msg := next(t, c)
				meta, err := msg.Metadata()
				check(t, "metadata", err)
				if meta.NumDelivered == 1 {
					stored = append(stored, meta.Timestamp)
				}
				return msg
			}
			// One message at a time: what a nak gives back may come before or behind others.
			fresh := func() jetstream.Msg {
				publish(t, js, "orders.created")
				return deliver()
			}
			check(t, "ack 1", fresh().Ack())
			check(t, "confirmed ack 2", fresh().DoubleAck(deadline(t)))
			check(t, "nak 3", fresh().Nak())
			check(t, "ack 3", deliver().DoubleAck(deadline(t)))
			check(t, "delayed nak 4", fresh().NakWithDelay(20*time.Millisecond))
			check(t, "ack 4", deliver().Ack())
			check(t, "term 5", fresh().TermWithReason("hopeless"))
			msg := fresh()
			check(t, "heartbeat 6", msg.InProgress())
			check(t, "term 6", msg.Term())

			want := []string{
				"ack of 1 (delivery 1, consumer sequence 1) \"+ACK\"",
				"ack of 2 (delivery 1, consumer sequence 2, to be confirmed) \"+ACK\"",
				"nak of 3 (delivery 1, consumer sequence 3) \"-NAK\"",
				"ack of 3 (delivery 2, consumer sequence 4, to be confirmed) \"+ACK\"",
				"nak of 4 (delivery 1, consumer sequence 5) \"-NAK {\\\"delay\\\": 20000000}\"",
				"ack of 4 (delivery 2, consumer sequence 6) \"+ACK\"",
				"term of 5 (delivery 1, consumer sequence 7) \"+TERM hopeless\"",
				"in progress of 6 (delivery 1, consumer sequence 8) \"+WPI\"",
				"term of 6 (delivery 1, consumer sequence 8) \"+TERM\"",
			}
			for which, w := range map[string]*natstest.Witness{"server": onServer, "wire": onWire} {
				w.WaitFor(t, "everything sent", func(s []natstest.Settlement) bool { return len(s) == len(want) })
				for i, s := range w.All() {
					if s.String() != want[i] {
						t.Errorf("%s: %d is %s, want %s", which, i, s, want[i])
					}
					if s.Stream != "ORDERS" || s.Durable != "worker" || !s.Stored.Equal(stored[s.StreamSeq-1]) {
						t.Errorf("%s: %s is of %s on %s, stored %v, want %v",
							which, s, s.Durable, s.Stream, s.Stored, stored[s.StreamSeq-1])
					}
				}
				nak, ack := w.Of(4)[0], w.Of(4)[1]
				if d := nak.Delay(); d != 20*time.Millisecond {
					t.Errorf("%s: nak asked for a delay of %v, want 20ms", which, d)
				}
				if took := ack.At.Sub(nak.At); took < nak.Delay()/2 {
					t.Errorf("%s: message was back after %v", which, took)
				}
				if n := len(w.Verdicts(4)); n != 1 {
					t.Errorf("%s: %d verdicts on 4, want the ack alone", which, n)
				}
				if n := len(w.Verdicts(6)); n != 1 {
					t.Errorf("%s: %d verdicts on 6, want the term alone", which, n)
				}
				got := fmt.Sprint(w.Count(natstest.Ack), w.Count(natstest.Nak), w.Count(natstest.Term),
					w.Count(natstest.InProgress), w.Count(natstest.Next))
				if got != "4 2 2 1 0" {
					t.Errorf("%s: counts of the kinds are %s", which, got)
				}
			}
			natstest.WaitSettled(t, srv.JetStream(), "ORDERS", "worker")
		})
	}
}

func TestWitnessIgnoresOtherConsumers(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream()
	provision(t, js, 1)
	_, err := js.CreateConsumer(deadline(t), "ORDERS", jetstream.ConsumerConfig{
		Durable: "other", AckPolicy: jetstream.AckExplicitPolicy,
	})
	check(t, "create consumer", err)
	proxy, through := behindProxy(t, srv)
	onServer, onWire := natstest.Watch(t, srv.Conn(), "ORDERS", "worker"), proxy.Watch("ORDERS", "worker")
	publish(t, js, "orders.created")
	other, err := through.Consumer(deadline(t), "ORDERS", "other")
	check(t, "consumer", err)
	check(t, "ack", next(t, other).DoubleAck(deadline(t)))
	onServer.Sync(t)
	if seen := append(onServer.All(), onWire.All()...); len(seen) != 0 {
		t.Errorf("saw %v", seen)
	}
}

// Sync makes "nothing more was sent" checkable: all that was sent before is there.
func TestSyncCatchesUp(t *testing.T) {
	srv := natstest.Start(t)
	provision(t, srv.JetStream(), 1)
	w := natstest.Watch(t, srv.Conn(), "ORDERS", "worker")
	conn := srv.Conn()
	const many = 5_000
	for i := range many {
		check(t, "publish", conn.Publish(fmt.Sprintf("$JS.ACK.ORDERS.worker.1.%d.1.1.0", i+1), []byte("+WPI")))
	}
	check(t, "flush", conn.FlushTimeout(natstest.Patience))
	w.Sync(t)
	if n := w.Count(natstest.InProgress); n != many {
		t.Errorf("%d of %d recorded after Sync", n, many)
	}
}

// A witness that subscribes hides that nobody else does; one at the proxy does not.
func TestWitnessAndTheAnswerOfADeletedConsumer(t *testing.T) {
	srv := natstest.Start(t)
	provision(t, srv.JetStream(), 1)
	proxy, js := behindProxy(t, srv)
	onWire := proxy.Watch("ORDERS", "worker")
	c, err := js.Consumer(deadline(t), "ORDERS", "worker")
	check(t, "consumer", err)
	publish(t, js, "orders.created")
	msg := next(t, c)
	check(t, "delete", srv.JetStream().DeleteConsumer(deadline(t), "ORDERS", "worker"))
	_, err = js.Conn().Request(msg.Reply(), []byte("+ACK"), natstest.Patience)
	if !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("ack to a deleted consumer: %v, want no responders", err)
	}
	if n := onWire.Count(natstest.Ack); n != 1 {
		t.Errorf("%d acks on the wire, want 1", n)
	}
	natstest.Watch(t, srv.Conn(), "ORDERS", "worker")
	_, err = js.Conn().Request(msg.Reply(), []byte("+ACK"), aMoment)
	if !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("ack to a deleted consumer while watched: %v, want a timeout", err)
	}
}

// What the code under test sends while the server comes back is not lost on a witness at the proxy.
func TestWitnessAtTheProxySurvivesARestart(t *testing.T) {
	srv := natstest.Start(t)
	provision(t, srv.JetStream(), 1)
	proxy, js := behindProxy(t, srv)
	w := proxy.Watch("ORDERS", "worker")
	c, err := js.Consumer(deadline(t), "ORDERS", "worker")
	check(t, "consumer", err)
	publish(t, js, "orders.created")
	msg := next(t, c)
	srv.Stop()
	check(t, "ack while down", msg.Ack()) // buffered by the client, sent with the reconnect
	srv.Restart()
	w.WaitFor(t, "the ack", func(s []natstest.Settlement) bool { return len(s) == 1 })
	natstest.WaitSettled(t, srv.JetStream(), "ORDERS", "worker")
}
