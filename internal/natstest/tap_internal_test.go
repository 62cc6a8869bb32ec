package natstest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// However the network cuts a client's bytes into pieces, and whatever stands in a payload, the tap
// hands on exactly the messages.
func TestTapReadsAnyPieces(t *testing.T) {
	payloads := rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 30),
		rapid.Just([]byte("PUB trap 3\r\nabc\r\n")),
		rapid.Just([]byte("\r\n\n\r")),
	)
	rapid.Check(t, func(t *rapid.T) {
		var wire bytes.Buffer
		var want []string
		for i := range rapid.IntRange(0, 6).Draw(t, "messages") {
			if rapid.Bool().Draw(t, "noise") {
				wire.WriteString("SUB orders.> 1\r\nPING\r\nCONNECT {\"verbose\":false}\r\n")
			}
			subject, reply, header := fmt.Sprintf("orders.%d", i), "", ""
			if rapid.Bool().Draw(t, "with reply") {
				reply = "inbox "
			}
			payload := payloads.Draw(t, "payload")
			if rapid.Bool().Draw(t, "with header") {
				header = "NATS/1.0\r\nA: b\r\n\r\n"
				fmt.Fprintf(&wire, "HPUB %s %s%d %d\r\n", subject, reply, len(header), len(header)+len(payload))
			} else {
				fmt.Fprintf(&wire, "PUB %s %s%d\r\n", subject, reply, len(payload))
			}
			fmt.Fprintf(&wire, "%s%s\r\n", header, payload)
			want = append(want, fmt.Sprintf("%s|%s|%q", subject, bytes.TrimSpace([]byte(reply)), payload))
		}
		var got []string
		set := new(tapSet)
		set.listen(func(subject, reply string, payload []byte) {
			got = append(got, fmt.Sprintf("%s|%s|%q", subject, reply, payload))
		})
		one := &tap{set: set}
		for wire.Len() > 0 {
			one.write(wire.Next(rapid.IntRange(1, 20).Draw(t, "piece")))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("read %q, want %q", got, want)
		}
	})
}
