package natstest

import (
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"
)

// InjectStatus sends a status to the inbox of a pull as if the server had: a message without payload
// whose headers hold the code, its description and extra. It is indistinguishable to the client, who
// reads the server's status line into the same headers, and it has reached the server on return.
//
// For example 409 "Leadership Change", 409 "Consumer Deleted", 409 "Server Shutdown", 503 "", and
// 100 "Idle Heartbeat".
func InjectStatus(
	tb testing.TB, conn *nats.Conn, pullReply string, code int, desc string, extra nats.Header,
) {
	tb.Helper()
	msg := nats.NewMsg(pullReply)
	for key, values := range extra {
		msg.Header[key] = values
	}
	msg.Header.Set("Status", strconv.Itoa(code))
	if desc != "" {
		msg.Header.Set("Description", desc)
	}
	if err := conn.PublishMsg(msg); err != nil {
		tb.Fatalf("inject %d %s: %v", code, desc, err)
	}
	if err := conn.FlushTimeout(Patience); err != nil {
		tb.Fatalf("flush injected %d %s: %v", code, desc, err)
	}
}
