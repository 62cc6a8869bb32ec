package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// broker is the NATS server of a run, inside this process, and a connection to it.
type broker struct {
	server *server.Server
	conn   *natsgo.Conn
	js     jetstream.JetStream
}

// startBroker starts a nats-server with JetStream that keeps its streams in dir, on a free port that only this
// machine reaches.
func startBroker(dir string) (*broker, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "jsource-jaeger", Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: dir, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 1 << 30,
		DisableJetStreamBanner: true, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the embedded NATS server: %w", err)
	}
	b := &broker{server: s}
	s.Start()
	if !s.ReadyForConnections(patience) {
		b.close()
		return nil, fmt.Errorf("the embedded NATS server is not ready after %v", patience)
	}
	if b.conn, err = natsgo.Connect(s.ClientURL(), natsgo.MaxReconnects(-1)); err != nil {
		b.close()
		return nil, fmt.Errorf("connecting to the embedded NATS server: %w", err)
	}
	if b.js, err = jetstream.New(b.conn); err != nil {
		b.close()
		return nil, fmt.Errorf("making a JetStream context: %w", err)
	}
	return b, nil
}

func (b *broker) close() {
	if b.conn != nil {
		b.conn.Close()
	}
	b.server.Shutdown()
	b.server.WaitForShutdown()
}

// counts is what the server says of the controller's durable.
type counts struct {
	waiting   int // in the stream
	unsettled int // handed out
}

// counts asks the server. Nothing is there yet before the first event and the first start of the controller.
func (b *broker) counts(ctx context.Context) (counts, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	name, err := b.js.StreamNameBySubject(ctx, promotionRequests.SubjectOf("created"))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return counts{}, nil
	}
	if err != nil {
		return counts{}, fmt.Errorf("looking for the stream of %s: %w", promotionRequests.Prefix(), err)
	}
	stream, err := b.js.Stream(ctx, name)
	if err != nil {
		return counts{}, fmt.Errorf("looking up stream %q: %w", name, err)
	}
	var c counts
	durables := stream.ListConsumers(ctx)
	for info := range durables.Info() {
		c.waiting += int(info.NumPending)
		c.unsettled += info.NumAckPending
	}
	if err := durables.Err(); err != nil {
		return counts{}, fmt.Errorf("asking for the durables of stream %q: %w", name, err)
	}
	return c, nil
}
