package bench

import (
	"fmt"
	"strconv"
	"strings"

	natsgo "github.com/nats-io/nats.go"
)

// witness notes when the server receives each ack, on a connection of its own. The acks of any client pass
// by here: that costs the server one more message for each, so only an open loop has one.
func witness(conn *natsgo.Conn, stream, durable string, p *Probe) error {
	_, err := conn.Subscribe(fmt.Sprintf("$JS.ACK.%s.%s.>", stream, durable), func(m *natsgo.Msg) {
		if len(m.Data) != 0 && string(m.Data) != "+ACK" {
			return // a heartbeat, or it is given back
		}
		if seq, ok := ackedSequence(m.Subject); ok {
			p.settle(seq)
		}
	})
	if err == nil {
		err = conn.FlushTimeout(storeWithin)
	}
	if err != nil {
		return fmt.Errorf("watching the acks: %w", err)
	}
	return nil
}

// ackedSequence reads the stream sequence of $JS.ACK.<stream>.<durable>.<delivered>.<sequence>.….
func ackedSequence(subject string) (uint64, bool) {
	for range 5 {
		_, rest, ok := strings.Cut(subject, ".")
		if !ok {
			return 0, false
		}
		subject = rest
	}
	text, _, _ := strings.Cut(subject, ".")
	seq, err := strconv.ParseUint(text, 10, 64)
	return seq, err == nil
}
