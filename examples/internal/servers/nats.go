package servers

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
)

// NATS is a connection to a server with JetStream.
type NATS struct {
	Conn   *natsgo.Conn
	server *server.Server // nil: somebody's
}

// OpenNATS connects to the server at url, or starts one that keeps its streams in dir if url is empty.
func OpenNATS(url, dir string) (*NATS, error) {
	n := &NATS{}
	if url == "" {
		s, err := server.NewServer(&server.Options{
			ServerName: "jsource-example", Host: "127.0.0.1", Port: server.RANDOM_PORT,
			JetStream: true, StoreDir: dir, DisableJetStreamBanner: true, NoLog: true, NoSigs: true,
		})
		if err != nil {
			return nil, fmt.Errorf("setting up the embedded NATS server: %w", err)
		}
		s.Start()
		n.server, url = s, s.ClientURL()
		if !s.ReadyForConnections(time.Minute) {
			n.Close()
			return nil, errors.New("the embedded NATS server is not ready after a minute")
		}
	}
	conn, err := natsgo.Connect(url, natsgo.MaxReconnects(-1))
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("connecting to the NATS server: %w", err)
	}
	n.Conn = conn
	return n, nil
}

// Close ends the connection, and stops the server if OpenNATS has started it.
func (n *NATS) Close() {
	if n.Conn != nil {
		n.Conn.Close()
	}
	if n.server != nil {
		n.server.Shutdown()
		n.server.WaitForShutdown()
	}
}
