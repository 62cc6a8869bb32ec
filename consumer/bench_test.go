package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// BenchmarkConsumeAck consumes b.N messages of 300 bytes from a stream on files, with the server in process,
// and acks each at once. Ours ends when the server has confirmed each ack; jetstream's loop does not ask for
// confirmations, and ends when the server has taken in all acks. x-jetstream is ours in terms of that, run
// just before.
func BenchmarkConsumeAck(b *testing.B) {
	b.Run("jetstream", func(b *testing.B) { perMessage(b, consumeRaw) })
	b.Run("consumer", func(b *testing.B) {
		raw := perMessage(b, consumeRaw)
		b.ResetTimer()
		ours := perMessage(b, consumeOurs)
		b.ReportMetric(float64(ours)/float64(raw), "x-jetstream")
	})
}

// perMessage times consume on b.N messages.
func perMessage(b *testing.B, consume func(b *testing.B, js jetstream.JetStream)) time.Duration {
	b.StopTimer()
	r := newRig(b)
	defer r.srv.Stop()
	js, err := jetstream.New(r.srv.Conn(), jetstream.WithPublishAsyncMaxPending(4096))
	r.check("jetstream", err)
	payload := make([]byte, 300)
	for range b.N {
		_, err := js.PublishAsync("orders.created.1", payload, jetstream.WithStallWait(natstest.Patience))
		r.check("publish", err)
	}
	<-js.PublishAsyncComplete()
	b.ReportAllocs()
	b.ResetTimer()
	b.StartTimer()
	consume(b, js)
	b.StopTimer()
	return b.Elapsed()
}

func consumeRaw(b *testing.B, js jetstream.JetStream) {
	ctx := context.Background()
	c, err := js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: consumer.DefaultMaxAckPending,
	})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	n := 0
	cc, err := c.Consume(func(m jetstream.Msg) {
		if err := m.Ack(); err != nil {
			b.Error(err)
		}
		if n++; n == b.N {
			close(done)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	<-done
	natstest.WaitSettled(b, js, stream, durable)
	b.StopTimer()
	cc.Stop()
}

// quick is a Handler with nothing to do.
type quick struct {
	left atomic.Int64
	done chan struct{}
}

func (*quick) Handle(m *consumer.Message) { m.Ack() }
func (*quick) Recovered(string)           {}
func (q *quick) Ended(*consumer.Message, consumer.Ending) {
	if q.left.Add(-1) == 0 {
		close(q.done)
	}
}

func consumeOurs(b *testing.B, js jetstream.JetStream) {
	ctx := context.Background()
	c, err := consumer.Open(ctx, js, consumer.Config{
		Subjects: []string{subject}, Durable: durable, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	q := &quick{done: make(chan struct{})}
	q.left.Store(int64(b.N))
	if err := c.Start(q); err != nil {
		b.Fatal(err)
	}
	<-q.done
	natstest.WaitSettled(b, js, stream, durable)
	b.StopTimer()
	if err := c.Close(ctx); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkHeartbeats times one round of heartbeats for 1000 held messages.
func BenchmarkHeartbeats(b *testing.B) {
	r := newRig(b)
	p := r.replica(wait(time.Hour))
	js, err := jetstream.New(r.srv.Conn())
	r.check("jetstream", err)
	for i := range 1000 {
		_, err := js.PublishAsync(fmt.Sprintf("orders.created.%d", i), nil)
		r.check("publish", err)
	}
	<-js.PublishAsyncComplete()
	p.got(1000)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		consumer.Beat(p.c)
	}
	r.check("flush", p.conn.FlushTimeout(natstest.Patience))
}
