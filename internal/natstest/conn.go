package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// Connect is [Server.Conn] to any URL, a [Proxy]'s for one.
func Connect(tb testing.TB, url string, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	all := append([]nats.Option{
		nats.MaxReconnects(-1),
		nats.ReconnectWait(20 * time.Millisecond),
		nats.ReconnectJitter(0, 0),
		nats.RetryOnFailedConnect(true),
		// Errors are what many tests are about: the default handler would print them all.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, opts...)
	conn, err := nats.Connect(url, all...)
	if err != nil {
		tb.Fatalf("connect to %s: %v", url, err)
	}
	tb.Cleanup(conn.Close)
	return conn
}

// WaitConnected waits until a server answers on conn. After a fault, ask this rather than conn itself:
// it says connected until it has noticed, and counts attempts that failed as reconnects.
func WaitConnected(tb testing.TB, conn *nats.Conn) {
	tb.Helper()
	Eventually(tb, "a server answers the connection", Patience, func() error {
		return conn.FlushTimeout(time.Second)
	})
}
