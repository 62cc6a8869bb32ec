package consumer

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// L2: where a message is settled is not kept as long as it is: it reads the same all the same, in either layout and
// whatever its numbers.
func TestL2_RepliesAreMadeAgain(t *testing.T) {
	c := &Consumer{stream: "ORDERS", durable: jetstream.ConsumerConfig{Durable: "worker"}}
	for _, reply := range []string{
		"$JS.ACK.ORDERS.worker.2.30.400.1700000000000000000.5",
		"$JS.ACK.ORDERS.worker.1.1.1.1.0",
		"$JS.ACK.ORDERS.worker.1.9223372036854775807.9223372036854775807.9223372036854775807.9223372036854775807",
		"$JS.ACK.ORDERS.worker.01.30.400.1700000000000000000.5",
		"$JS.ACK.ORDERS.worker.1.30.400.1700000000000000000.x",
		"$JS.ACK.ORDERS.worker.1.30.400.1700000000000000000.",
		"$JS.ACK.OTHER.worker.1.30.400.1700000000000000000.5",
		"$JS.ACK.hub.HASH.ORDERS.worker.2.30.400.1700000000000000000.5.token",
		"$JS.ACK._.HASH.ORDERS.worker.2.30.400.1700000000000000000.5",
	} {
		d, err := parseReply(reply)
		if err != nil {
			t.Errorf("%s: %v", reply, err)
			continue
		}
		m := &Message{seq: d.seq, stored: d.time}
		c.setReply(m, reply, d)
		if got := c.reply(m); got != reply {
			t.Errorf("%s became %s", reply, got)
		}
	}
}
