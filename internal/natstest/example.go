package natstest

import (
	"log"
	"os"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// ConnectExample is for examples, which have no [testing.TB]: a connection to a server with JetStream of its own. Both are gone
// when the function that is returned was called.
func ConnectExample() (conn *nats.Conn, gone func()) {
	dir, err := os.MkdirTemp("", "jsource-example")
	if err != nil {
		log.Fatal(err)
	}
	srv, err := server.NewServer(&server.Options{
		Host: loopback, Port: -1, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
		DisableJetStreamBanner: true, JetStreamMaxMemory: 1 << 30, JetStreamMaxStore: 1 << 40,
	})
	if err != nil {
		log.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(Patience) {
		log.Fatal("the server does not start")
	}
	if conn, err = nats.Connect(srv.ClientURL()); err != nil {
		log.Fatal(err)
	}
	return conn, func() {
		conn.Close()
		srv.Shutdown()
		srv.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}
}
