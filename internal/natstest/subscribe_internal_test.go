package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestSyncWaitsForTheHandler(t *testing.T) {
	conn := Start(t).Conn()
	release := make(chan struct{})
	subs := subscribe(t, conn, func(*nats.Msg) { <-release }, "orders.>")
	for range 3 {
		if err := conn.Publish("orders.created", nil); err != nil {
			t.Fatal(err)
		}
	}
	synced := make(chan struct{})
	go func() {
		defer close(synced)
		subs.sync(t)
	}()
	select {
	case <-synced:
		t.Error("in sync before the messages are handled")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	<-synced
}
