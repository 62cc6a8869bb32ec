package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// invoices is a Config for a subject tree that the rig's stream does not hold.
var invoices = with(func(cfg *consumer.Config) {
	cfg.Subjects = []string{"invoices.>"}
	cfg.Covers = []string{"invoices.created", "invoices.updated", "invoices.deleted"}
	cfg.Root = "invoices.>"
})

// A stream that does not hold all, or from which messages can vanish before they are settled, is refused,
// naming the field. Bind takes it as it is.
func TestS12_UnsuitableStreamIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg  jetstream.StreamConfig
		seal bool
		want []string
	}{
		"holds a part": {
			cfg:  jetstream.StreamConfig{Subjects: []string{"invoices.created", "invoices.updated"}},
			want: []string{"subjects", "invoices.created", "invoices.deleted"},
		},
		"interest": {
			cfg:  jetstream.StreamConfig{Retention: jetstream.InterestPolicy},
			want: []string{"retention", "Interest", "Limits"},
		},
		"work queue": {
			cfg:  jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy},
			want: []string{"retention", "WorkQueue", "Limits"},
		},
		"sealed": {seal: true, want: []string{"sealed", "true", "false"}},
		"no ack": {cfg: jetstream.StreamConfig{NoAck: true}, want: []string{"no_ack", "true", "false"}},
		"transform": {
			cfg: jetstream.StreamConfig{SubjectTransform: &jetstream.SubjectTransformConfig{
				Source: "invoices.created", Destination: "bills.created",
			}},
			want: []string{"subject_transform", "bills.created", "unset"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			cfg := test.cfg
			cfg.Name = "INVOICES"
			if cfg.Subjects == nil {
				cfg.Subjects = []string{"invoices.>"}
			}
			_, err := r.js.CreateStream(r.ctx(), cfg)
			r.check("create stream", err)
			if test.seal {
				cfg.Sealed = true
				_, err = r.js.UpdateStream(r.ctx(), cfg)
				r.check("seal", err)
			}
			_, err = r.open(invoices)
			names(t, err, append(test.want, "INVOICES")...)
			_, err = r.open(invoices, with(func(cfg *consumer.Config) { cfg.Stream.Name = "INVOICES" }))
			names(t, err, append(test.want, "INVOICES")...)
			_, err = r.js.CreateConsumer(r.ctx(), "INVOICES", jetstream.ConsumerConfig{
				Durable: durable, AckPolicy: jetstream.AckExplicitPolicy,
			})
			r.check("create consumer", err)
			if _, err = r.open(invoices, bind); err != nil {
				t.Errorf("refused under Bind: %v", err)
			}
		})
	}
}

// A mirror has no subjects of its own: only by name can one ask for it.
func TestS12_MirrorIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.js.CreateStream(r.ctx(), jetstream.StreamConfig{
		Name: "COPY", Mirror: &jetstream.StreamSource{Name: stream},
	})
	r.check("create mirror", err)
	byName := with(func(cfg *consumer.Config) { cfg.Stream.Name = "COPY" })
	_, err = r.open(byName)
	names(t, err, "COPY", "mirror", stream, "unset")
	_, err = r.js.CreateConsumer(r.ctx(), "COPY", jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy,
	})
	r.check("create consumer", err)
	p := r.replica(byName, bind)
	r.publish(1, 1)
	p.got(1)[0].Ack()
	natstest.WaitSettled(t, r.js, "COPY", durable)
}

// Subjects spread over two streams cannot be consumed in their order.
func TestS12_SubjectsSpreadOverStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, subject := range map[string]string{"A": "invoices.created", "B": "invoices.updated"} {
		_, err := r.js.CreateStream(r.ctx(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}})
		r.check("create stream", err)
	}
	_, err := r.open(invoices)
	names(t, err, "spread", "[A B]")
}

// A stream on ">" holds every subject, and the server lets it answer no publisher: refused, and no other can
// be made beside it. Bind takes it.
func TestS12_StreamOnEverything(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, srv: natstest.Start(t)}
	r.js = r.srv.JetStream()
	_, err := r.js.CreateStream(r.ctx(), jetstream.StreamConfig{Name: stream, Subjects: []string{">"}, NoAck: true})
	r.check("create stream", err)
	_, err = r.open(invoices)
	names(t, err, "no_ack", stream, "Bind")
	_, err = r.open(invoices, with(func(cfg *consumer.Config) { cfg.Stream.Name = "INVOICES" }))
	names(t, err, "INVOICES", "overlap")
	r.made(func(c *jetstream.ConsumerConfig) { c.FilterSubject = "invoices.>" })
	p, err := r.open(invoices, bind)
	r.check("open", err)
	if got := p.c.Stream(); got != stream {
		t.Errorf("consumes %q, want %q", got, stream)
	}
}

// A stream with a wider subject is used as it is.
func TestS12_WiderStreamIsUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.js.CreateStream(r.ctx(), jetstream.StreamConfig{
		Name: "WIDE", Subjects: []string{"invoices.*", "bills.>"},
	})
	r.check("create stream", err)
	p, err := r.open(invoices)
	r.check("open", err)
	if got := p.c.Stream(); got != "WIDE" {
		t.Errorf("consumes %q, want WIDE", got)
	}
}

// Nothing holds the subjects: the stream that the documentation promises is made.
func TestS12_StreamIsMade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p, err := r.open(invoices)
	r.check("open", err)
	s, err := r.js.Stream(r.ctx(), "invoices")
	r.check("stream", err)
	is := s.CachedInfo().Config
	if is.Retention != jetstream.LimitsPolicy || is.MaxAge != consumer.DefaultMaxAge ||
		is.Duplicates != consumer.DefaultDuplicates || is.Storage != jetstream.FileStorage || is.Replicas != 1 || len(is.Subjects) != 1 || is.Subjects[0] != "invoices.>" {
		t.Errorf("made as %+v", is)
	}
	if got := p.c.Stream(); got != "invoices" {
		t.Errorf("consumes %q", got)
	}
}

// Whoever comes first provisions; the others find it. Replicas and a publisher begin at once.
func TestS12_ProvisioningAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 6
	var (
		all  sync.WaitGroup
		errs [2 * n]error
		js   = make([]jetstream.JetStream, 2*n)
	)
	for i := range js {
		js[i] = r.srv.JetStream(nats.Name("apart"))
	}
	for i := range n {
		all.Go(func() {
			c, err := consumer.Open(r.ctx(), js[i], consumer.Config{
				Subjects: []string{"invoices.>"}, Durable: durable, Root: "invoices.>",
				Covers: []string{"invoices.created", "invoices.updated", "invoices.deleted"},
			})
			if errs[i] = err; err == nil {
				errs[i] = c.Close(r.ctx())
			}
		})
		all.Go(func() { // as the publisher does
			want := consumer.TopicStream(jetstream.StreamConfig{}, "invoices.>",
				[]string{"invoices.created", "invoices.updated", "invoices.deleted"}, false)
			_, errs[n+i] = consumer.ProvisionStream(r.ctx(), js[n+i], want)
		})
	}
	all.Wait()
	for _, err := range errs {
		r.check("provision", err)
	}
}

// Replicas of different versions begin at once: whoever is slower finds a durable that is not as it would have
// made it.
func TestS12_ReplicasThatDifferOpenAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 8
	var (
		all  sync.WaitGroup
		errs [n]error
		js   [n]jetstream.JetStream
	)
	for i := range js {
		js[i] = r.srv.JetStream(nats.Name("apart"))
	}
	for round := range 5 {
		for i := range n {
			all.Go(func() {
				var c *consumer.Consumer
				c, errs[i] = consumer.Open(r.ctx(), js[i], consumer.Config{
					Subjects: []string{subject}, Durable: fmt.Sprint(durable, round), AckWait: time.Duration(i+1) * time.Second,
					Logger: slog.New(new(journal)),
				})
				if errs[i] == nil {
					errs[i] = c.Close(r.ctx())
				}
			})
		}
		all.Wait()
		for _, err := range errs {
			r.check("open", err)
		}
	}
}

// late is a view of JetStream in which a durable is found only when it was looked up before.
type late struct{ jetstream.JetStream }

type lateStream struct {
	jetstream.Stream
	looked *bool
}

func (l late) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := l.JetStream.Stream(ctx, name)
	return lateStream{s, new(bool)}, err
}

func (s lateStream) Consumer(ctx context.Context, name string) (jetstream.Consumer, error) {
	if !*s.looked {
		*s.looked = true
		return nil, jetstream.ErrConsumerNotFound
	}
	return s.Stream.Consumer(ctx, name)
}

// Somebody makes the durable after it was looked for: that one is used, checked like any other.
func TestS12_SomebodyMadeTheDurableFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.made(func(c *jetstream.ConsumerConfig) { c.AckWait = time.Hour })
	cfg := consumer.Config{
		Subjects: []string{subject}, Durable: durable, AckWait: time.Minute, Logger: slog.New(new(journal)),
	}
	c, err := consumer.Open(r.ctx(), late{r.js}, cfg)
	r.check("open", err)
	if c.AckWait() != time.Minute || r.info().Config.AckWait != time.Minute {
		t.Errorf("AckWait %v, at the server %v", c.AckWait(), r.info().Config.AckWait)
	}
	cfg.Subjects = []string{"orders.created"}
	_, err = consumer.Open(r.ctx(), late{r.js}, cfg)
	names(t, err, "filter", "orders.created", "orders.>")
}

// Somebody makes the stream under another name, after it was looked for: that one is used.
func TestS12_SomebodyWasFasterUnderAnotherName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.js.CreateStream(r.ctx(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"invoices.archived"}})
	r.check("create stream", err)
	_, err = r.open(invoices) // what would be made overlaps, and none of what is wanted is held
	names(t, err, "invoices", "overlap")
	_, err = r.js.UpdateStream(r.ctx(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"invoices.>"}})
	r.check("update stream", err)
	p, err := r.open(invoices)
	r.check("open", err)
	if got := p.c.Stream(); got != "OTHER" {
		t.Errorf("consumes %q, want OTHER", got)
	}
}

// The server is not there yet: it is waited for, as long as StartTimeout allows.
func TestOpenWaitsForTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.srv.Stop()
	began := time.Now()
	_, err := r.open(with(func(cfg *consumer.Config) { cfg.StartTimeout = 300 * time.Millisecond }))
	names(t, err, "waited for the server")
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("waited %v", took)
	}
	opened := make(chan error, 1)
	go func() {
		_, err := r.open()
		opened <- err
	}()
	r.srv.Restart()
	r.check("open", <-opened)
}

// Escape is one-to-one, and what it makes can be a name.
func TestS12_EscapeIsInjective(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("a._-=2E5F")), 0, 8, -1))
	rapid.Check(t, func(rt *rapid.T) {
		also := rapid.SampledFrom([]string{"", "-", "-_", "_"}).Draw(rt, "also")
		a, b := text.Draw(rt, "a"), text.Draw(rt, "b")
		ea, eb := consumer.Escape(a, also), consumer.Escape(b, also)
		if (a == b) != (ea == eb) {
			rt.Errorf("%q becomes %q, %q becomes %q", a, ea, b, eb)
		}
		if a != "" && len(ea) < 256 {
			if err := consumer.CheckName(ea); err != nil {
				rt.Errorf("%q becomes %q: %v", a, ea, err)
			}
		}
	})
	for root, want := range map[string]string{
		"orders.>": "orders", "kargo.requests.>": "kargo_requests", "a_b.>": "a=5Fb", "a-b.c.>": "a-b_c",
	} {
		if got := consumer.StreamName(root); got != want {
			t.Errorf("the stream for %q is named %q, want %q", root, got, want)
		}
	}
}
