package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// broker is the NATS server of a run: one of its own, inside this process, or somebody's.
type broker struct {
	url    string
	topic  requestTopic
	server *server.Server // nil if it is somebody's
	conn   *natsgo.Conn
	js     jetstream.JetStream
	used   bool // it may hold streams of this run
}

// connect connects to NATS as every process of the demo does: it never gives up, and is back quickly.
func connect(url, creds string, opts ...natsgo.Option) (*natsgo.Conn, error) {
	opts = append(opts,
		natsgo.Name("jsource demo"),
		natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(100*time.Millisecond),
		natsgo.ReconnectJitter(20*time.Millisecond, 20*time.Millisecond))
	if creds != "" {
		opts = append(opts, natsgo.UserCredentials(creds))
	}
	conn, err := natsgo.Connect(url, opts...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the NATS server: %w", err)
	}
	return conn, nil
}

// startBroker connects to the server at url, or starts one that keeps its streams in dir if url is empty.
func startBroker(ctx context.Context, url, creds, dir string, topic requestTopic) (_ *broker, err error) {
	b := &broker{url: url, topic: topic}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if url == "" {
		if b.server, err = startServer(dir); err != nil {
			return nil, err
		}
		b.url = b.server.ClientURL()
	}
	if b.conn, err = connect(b.url, creds); err != nil {
		return nil, err
	}
	if b.js, err = jetstream.New(b.conn); err != nil {
		return nil, fmt.Errorf("making a JetStream context: %w", err)
	}
	return b, b.check(ctx)
}

// startServer starts a nats-server with JetStream on a free port that only this machine reaches.
func startServer(dir string) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "jsource-demo", Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: dir, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 1 << 30,
		DisableJetStreamBanner: true, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the embedded NATS server: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		s.Shutdown()
		return nil, errors.New("the embedded NATS server is not ready after 20 seconds")
	}
	return s, nil
}

// check refuses a server that the demo cannot run on, or that it could not be removed from again.
func (b *broker) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := b.js.AccountInfo(ctx)
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return fmt.Errorf("the NATS server has no JetStream for this account; start it with -js, say: %w", err)
	}
	if err != nil {
		return fmt.Errorf("asking the NATS server for JetStream: %w", err)
	}
	name, err := b.js.StreamNameBySubject(ctx, b.topic.SubjectOf("created"))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		b.used = true
		return nil
	case err != nil:
		return fmt.Errorf("looking for streams: %w", err)
	}
	return fmt.Errorf("stream %q of this account stores every subject there is, or nearly: the demo's events "+
		"would stay in it; use another account or server, or leave -nats away for one that is the demo's own", name)
}

// watch reports how many events are settled from time to time, until ctx ends. That it cannot find out for
// once does not matter.
func (b *broker) watch(ctx context.Context, l *ledger) error {
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		published := l.publishedCount()
		if left, err := b.unsettled(ctx); err == nil {
			l.settle(max(0, published-left))
		}
	}
}

// unsettled asks the server how much the durable on the topic still has to settle.
func (b *broker) unsettled(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	name, err := b.js.StreamNameBySubject(ctx, b.topic.SubjectOf("created"))
	if err != nil {
		return 0, fmt.Errorf("looking for the stream of the run: %w", err)
	}
	stream, err := b.js.Stream(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("looking up stream %q: %w", name, err)
	}
	left := 0
	durables := stream.ListConsumers(ctx)
	for info := range durables.Info() {
		left += info.NumAckPending + int(info.NumPending)
	}
	return left, durables.Err()
}

// close removes what the run has made on the server, which is recognised by the run's own topic, and
// leaves or stops the server.
func (b *broker) close() (err error) {
	if b.used && b.server == nil {
		err = b.removeStreams()
	}
	if b.conn != nil {
		b.conn.Close()
	}
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
	return err
}

func (b *broker) removeStreams() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var names []string
	streams := b.js.ListStreams(ctx)
	for info := range streams.Info() {
		for _, subject := range info.Config.Subjects {
			// The events' stream, and the one for dead letters, whose subjects contain its name.
			if strings.Contains(subject, runOf(b.topic.Prefix())) {
				names = append(names, info.Config.Name)
				break
			}
		}
	}
	err := streams.Err()
	for _, name := range names {
		err = errors.Join(err, b.js.DeleteStream(ctx, name))
	}
	if err != nil {
		return fmt.Errorf("removing the streams of this run, whose names contain %q: %w",
			runOf(b.topic.Prefix()), err)
	}
	return nil
}

// newTopic returns the topic of a run that is named run.
func newTopic(run string) requestTopic { return requestEvents(run + ".promotionrequests") }

// runOf is the first token of a topic's prefix, which is the name of the run.
func runOf(prefix string) string {
	run, _, _ := strings.Cut(prefix, ".")
	return run
}
