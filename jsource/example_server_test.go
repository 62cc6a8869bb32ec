package jsource_test

import (
	"log"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
)

// connect is what the examples have instead of nats.Connect with the address of a server: one of their own,
// which is gone when they call the function that is returned.
func connect() (conn *natsgo.Conn, gone func()) {
	dir, err := os.MkdirTemp("", "jsource-example")
	if err != nil {
		log.Fatal(err)
	}
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
		DisableJetStreamBanner: true, JetStreamMaxMemory: 1 << 30, JetStreamMaxStore: 1 << 40,
	})
	if err != nil {
		log.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(30 * time.Second) {
		log.Fatal("the server does not start")
	}
	if conn, err = natsgo.Connect(srv.ClientURL()); err != nil {
		log.Fatal(err)
	}
	return conn, func() {
		conn.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}
}
