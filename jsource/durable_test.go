package jsource_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// durableAsMade is the durable as a source makes it.
func durableAsMade() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: widgetDurable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second,
		MaxAckPending: 1000, MaxDeliver: -1,
		FilterSubjects: []string{"shop.widgets.created", "shop.widgets.updated", "shop.widgets.deleted"},
	}
}

// stream makes the topic's stream.
func (w *world) stream() {
	w.tb.Helper()
	_, err := w.js.CreateStream(w.tb.Context(), jetstream.StreamConfig{
		Name: widgetStream, Subjects: []string{"shop.widgets.>"},
	})
	if err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) durable(cfg jetstream.ConsumerConfig) {
	w.tb.Helper()
	if _, err := w.js.CreateOrUpdateConsumer(w.tb.Context(), widgetStream, cfg); err != nil {
		w.tb.Fatal(err)
	}
}

// S9: Start refuses a durable that would lose or mistime messages, and the error can be read by somebody who
// has never seen this module: controller, source, topic, durable, field, both values, a way out.
func TestUnsafeDurableIsRefused(t *testing.T) {
	t.Parallel()
	for field, tc := range map[string]struct {
		change func(*jetstream.ConsumerConfig)
		want   []string
	}{
		"max_deliver": {func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 }, []string{"is 5", "should be -1"}},
		"backoff": {
			func(c *jetstream.ConsumerConfig) { c.BackOff = []time.Duration{time.Second} },
			[]string{"is [1s]", "should be unset"},
		},
		"ack_policy": {
			func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy },
			[]string{"is AckAll", "must be AckExplicit"},
		},
		"filter": {
			func(c *jetstream.ConsumerConfig) { c.FilterSubjects = c.FilterSubjects[:2] },
			[]string{"is [shop.widgets.created shop.widgets.updated]", "shop.widgets.deleted"},
		},
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.stream()
			cfg := durableAsMade()
			tc.change(&cfg)
			w.durable(cfg)
			expectError(t, w.refused(), append(tc.want, `controller "keeper"`, "source 1", `topic "shop.widgets.>"`,
				`durable "keeper-shop_widgets"`, `stream "shop_widgets"`, "its "+field)...)
		})
	}
}

// Case 19, S9: what may be updated is, nothing else of an existing durable is touched, and where it is stays.
func TestDurableIsUpdated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stream()
	w.publish("old")
	cfg := durableAsMade()
	cfg.AckWait, cfg.MaxAckPending, cfg.DeliverPolicy = time.Minute, 7, jetstream.DeliverNewPolicy
	cfg.Description = "mine"
	w.durable(cfg)
	m := w.join(withSource(func(s *widgetSource) { s.AckWait(10 * time.Second).MaxAckPending(50) }))
	w.publish("new")
	m.waitDone(t, "new")
	w.settled()
	m.expectOnce(t, "new")
	is := w.info().Config
	if is.AckWait != 10*time.Second || is.MaxAckPending != 50 || is.DeliverPolicy != jetstream.DeliverNewPolicy ||
		is.Description != "mine" || is.Metadata["jsource.controller"] != keeper ||
		is.Metadata["jsource.topic"] != "shop.widgets" {
		t.Errorf("the durable is %+v", is)
	}
}

// S9: a durable that belongs to another controller, or to another topic, is refused.
func TestStrangersDurableIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(withSource(func(s *widgetSource) { s.Durable("shared") })).stop()

	c, err := reconciler.New[string]("stranger").Logger(w.log).
		Watch(jsource.Subject(w.srv.Conn(), widgets).Durable("shared")).Reconciler(new(ledger))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	expectError(t, c.Start(ctx), `controller "stranger"`, `durable "shared"`, "belongs to somebody else",
		`"keeper"`, `"stranger"`, "choose another name")

	below := nats.NewTopic[string, widget]("shop.widgets.parts") // in the same stream
	src := jsource.Subject(w.srv.Conn(), below).Durable("shared")
	expectError(t, w.refused(watchingOnly(reconciler.Source[string](src))), `topic "shop.widgets.parts.>"`, `durable "shared"`)
}

// Case 8, Bind: a durable is used as it is, with heartbeats that fit its BackOff.
func TestBoundDurableWithBackOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.stream()
	cfg := durableAsMade()
	cfg.BackOff, cfg.MaxDeliver = []time.Duration{600 * time.Millisecond, 5 * time.Second}, 10
	cfg.MaxAckPending, cfg.Description = 3, "mine"
	w.durable(cfg)
	was := w.info().Config
	done := make(chan struct{})
	time.AfterFunc(2*time.Second, func() { close(done) })
	expectError(t, w.refused(withSource(func(s *widgetSource) { s.Bind() })), "dead letters", "NoDeadLetters",
		"jsource.dead.shop_widgets.>", "Bind forbids")
	w.join(withSource(func(s *widgetSource) { s.Bind().AckWait(time.Hour).NoDeadLetters() }), doing(waitFor(done)))
	r := w.publish("a")[0]
	w.settled()
	w.expectSaid(r.Sequence, "ack of delivery 1")
	is := w.info().Config
	if is.MaxAckPending != was.MaxAckPending || is.MaxDeliver != 10 || len(is.Metadata) != len(was.Metadata) ||
		is.Description != "mine" {
		t.Errorf("it was changed: %+v", is)
	}
}

// S12: an existing stream that does not hold all of the topic is refused, by field.
func TestUnfitStreamIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg  jetstream.StreamConfig
		want []string
	}{
		"a part of the topic": {
			jetstream.StreamConfig{Name: "PART", Subjects: []string{"shop.widgets.created"}},
			[]string{`stream "PART"`, "subjects", "shop.widgets.updated"},
		},
		"retention": {
			jetstream.StreamConfig{
				Name: "JOBS", Subjects: []string{"shop.>"}, Retention: jetstream.WorkQueuePolicy,
			},
			[]string{`stream "JOBS"`, "retention is WorkQueue", "should be Limits"},
		},
		"no acks": {
			jetstream.StreamConfig{Name: "MUTE", Subjects: []string{"shop.>"}, NoAck: true},
			[]string{`stream "MUTE"`, "no_ack is true"},
		},
		"transforming": {
			jetstream.StreamConfig{
				Name: "TURN", Subjects: []string{"shop.>"},
				SubjectTransform: &jetstream.SubjectTransformConfig{Source: "shop.>", Destination: "store.>"},
			},
			[]string{`stream "TURN"`, "subject_transform"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if _, err := w.js.CreateStream(t.Context(), tc.cfg); err != nil {
				t.Fatal(err)
			}
			expectError(t, w.refused(), append(tc.want, `controller "keeper"`, `topic "shop.widgets.>"`)...)
			if n := len(w.mustStream(tc.cfg.Name).CachedInfo().Config.Subjects); n != 1 {
				t.Errorf("the stream was changed")
			}
		})
	}
}

// S12: the stream that holds the topic is used, whatever it is called, and left as it is.
func TestExistingStreamIsUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"shop.>"}, MaxMsgs: 1000}
	if _, err := w.js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	m := w.join()
	if r := w.publish("a")[0]; r.Stream != "EVENTS" {
		t.Errorf("published to %+v", r)
	}
	natstest.WaitSettled(t, w.js, "EVENTS", widgetDurable)
	m.expectOnce(t, "a")
	if is := w.mustStream("EVENTS").CachedInfo().Config; is.MaxMsgs != 1000 || len(is.Subjects) != 1 {
		t.Errorf("it was changed: %+v", is)
	}
}

// Stream: a stream of one's own is made as asked for.
func TestStreamIsMadeAsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(withSource(func(s *widgetSource) {
		s.Stream(jetstream.StreamConfig{Name: "MINE", MaxAge: time.Hour, Storage: jetstream.MemoryStorage})
	}))
	w.publish("a")
	natstest.WaitSettled(t, w.js, "MINE", widgetDurable)
	m.expectOnce(t, "a")
	is := w.mustStream("MINE").CachedInfo().Config
	if is.MaxAge != time.Hour || is.Storage != jetstream.MemoryStorage || is.Subjects[0] != "shop.widgets.>" {
		t.Errorf("it is %+v", is)
	}
}
