package consumer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// made is a durable made beforehand, in a way that suits but for edit.
func (r *rig) made(edit func(*jetstream.ConsumerConfig)) {
	r.t.Helper()
	cfg := jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1,
		FilterSubject: subject,
	}
	edit(&cfg)
	_, err := r.js.CreateConsumer(r.ctx(), stream, cfg)
	r.check("create consumer", err)
}

// names checks that err holds each of parts.
func names(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that names %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
}

// A field that would lose or mistime messages is refused by name, with what it is and what it should be;
// under Bind the durable is taken as it is, unless it cannot work.
func TestS9_UnsafeDurableIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edit  func(*jetstream.ConsumerConfig)
		want  []string
		never bool // not even under Bind
	}{
		"ack none": {
			edit:  func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy },
			want:  []string{"ack_policy", "AckNone", "AckExplicit"},
			never: true,
		},
		"ack all": {
			edit:  func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckAllPolicy },
			want:  []string{"ack_policy", "AckAll", "AckExplicit"},
			never: true,
		},
		"priority groups": {
			edit: func(c *jetstream.ConsumerConfig) {
				c.PriorityPolicy, c.PriorityGroups = jetstream.PriorityPolicyOverflow, []string{"jobs"}
			},
			want:  []string{"priority_groups", "jobs", "unset"},
			never: true,
		},
		"max deliver": {
			edit: func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 7 },
			want: []string{"max_deliver", "7", "-1"},
		},
		"backoff": {
			edit: func(c *jetstream.ConsumerConfig) {
				c.MaxDeliver, c.BackOff = -1, []time.Duration{200 * time.Millisecond, 5 * time.Second}
			},
			want: []string{"backoff", "200ms 5s", "unset"},
		},
		"filter": {
			edit: func(c *jetstream.ConsumerConfig) { c.FilterSubject = "orders.created" },
			want: []string{"filter", "orders.created", "orders.>"},
		},
		"no filter": {
			edit: func(c *jetstream.ConsumerConfig) { c.FilterSubject = "" },
			want: []string{"filter", "[]", "orders.>"},
		},
		"headers only": {
			edit: func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true },
			want: []string{"headers_only", "true", "false"},
		},
		"a stranger's": {
			edit: func(c *jetstream.ConsumerConfig) { c.Metadata = map[string]string{"controller": "billing"} },
			want: []string{"belongs to somebody else", "controller", `"billing"`, `"shipping"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.made(test.edit)
			was := r.info().Config
			owner := with(func(cfg *consumer.Config) { cfg.Owner = map[string]string{"controller": "shipping"} })
			_, err := r.open(owner)
			names(t, err, append(test.want, durable, stream)...)
			p, err := r.open(owner, bind)
			switch {
			case test.never:
				names(t, err, append(test.want, "not even with Bind")...)
			case err != nil:
				t.Errorf("refused under Bind: %v", err)
			default:
				r.check("start", p.c.Start(p.desk))
				r.publish(1, 1)
				r.publishOn("orders.created")
				p.got(1)[0].Ack()
			}
			if is := r.info().Config; is.AckWait != was.AckWait || is.MaxDeliver != was.MaxDeliver ||
				len(is.BackOff) != len(was.BackOff) || is.FilterSubject != was.FilterSubject {
				t.Errorf("it was changed from %+v to %+v", was, is)
			}
		})
	}
}

func (r *rig) publishOn(subject string) {
	r.t.Helper()
	_, err := r.js.Publish(r.ctx(), subject, []byte("x"))
	r.check("publish", err)
}

// A push consumer is none of ours.
func TestS9_PushConsumerIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.js.CreatePushConsumer(r.ctx(), stream, jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, DeliverSubject: "elsewhere", FilterSubject: subject,
	})
	r.check("create consumer", err)
	_, err = r.open(bind)
	names(t, err, durable, stream, "not a pull consumer")
}

// AckWait and MaxAckPending are updated, and what the server made of it is what counts. The durable's
// position and what others keep in its metadata stay.
func TestCase19_AckWaitAndMaxAckPendingAreUpdated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.made(func(c *jetstream.ConsumerConfig) {
		c.AckWait, c.MaxAckPending = time.Hour, 17
		c.Metadata = map[string]string{"team": "logistics"}
	})
	p := r.replica(wait(600*time.Millisecond), most(5), with(func(cfg *consumer.Config) {
		cfg.Owner = map[string]string{"controller": "shipping"}
		cfg.Metadata = map[string]string{"version": "2"}
	}))
	info := r.info()
	if is := info.Config; is.AckWait != 600*time.Millisecond || is.MaxAckPending != 5 {
		t.Errorf("AckWait %v, MaxAckPending %d; want 600ms, 5", is.AckWait, is.MaxAckPending)
	}
	for key, want := range map[string]string{"team": "logistics", "controller": "shipping", "version": "2"} {
		if got := info.Config.Metadata[key]; got != want {
			t.Errorf("metadata: %s is %q, want %q", key, got, want)
		}
	}
	if p.c.AckWait() != 600*time.Millisecond || p.c.MaxAckPending() != 5 {
		t.Errorf("it goes by %v, %d", p.c.AckWait(), p.c.MaxAckPending())
	}
	r.publish(1, 9)
	p.got(5)
	p.beats(4 * 5)
	if n := len(p.sequences()); n != 5 {
		t.Errorf("%d held, want 5", n)
	}
	for i := range 9 {
		ms := p.got(i + 1)
		if ms[i].Deliveries() != 1 {
			t.Errorf("message %d was handed out %d times", i+1, ms[i].Deliveries())
		}
		ms[i].Ack()
	}
	r.settled()
}

// A replica of another version changes the durable under a running one, which goes by what is there then.
func TestCase19_RunningReplicaFollowsTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.replica(hurry, wait(30*time.Second), most(10))
	r.replica(hurry, wait(600*time.Millisecond), most(3), holds(0))
	natstest.Until(t, "the first has noticed", natstest.Patience, func() bool {
		return a.c.AckWait() == 600*time.Millisecond && a.c.MaxAckPending() == 3
	})
	r.replica(hurry, wait(600*time.Millisecond), most(20), holds(0))
	natstest.Until(t, "the first has noticed again", natstest.Patience, func() bool { return a.c.MaxAckPending() == 20 })
	r.publish(1, 20)
	if n := len(a.got(20)); n != 20 {
		t.Errorf("%d held, want 20", n)
	}
}

// Where a durable began is history: it is not compared.
func TestS9_DeliverPolicyIsNotCompared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(1, 4)
	r.made(func(c *jetstream.ConsumerConfig) {
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, 3
	})
	p := r.replica(with(func(cfg *consumer.Config) { cfg.DeliverPolicy = jetstream.DeliverNewPolicy }))
	ms := p.got(2)
	if got := p.sequences(); got[0] != 3 || got[1] != 4 {
		t.Errorf("handed out %v, want 3 4", got)
	}
	ms[0].Ack()
	ms[1].Ack()
	r.settled()
}

// A durable that is made begins where DeliverPolicy says.
func TestS9_DeliverPolicyWhenItIsMade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(1, 4)
	p := r.replica(with(func(cfg *consumer.Config) { cfg.DeliverPolicy = jetstream.DeliverNewPolicy }))
	r.publish(5, 5)
	if p.got(1); p.sequences()[0] != 5 {
		t.Errorf("handed out %v, want 5", p.sequences())
	}
	is := r.info().Config
	if is.AckPolicy != jetstream.AckExplicitPolicy || is.MaxDeliver != -1 ||
		len(is.BackOff) != 0 || is.FilterSubject != subject {
		t.Errorf("made as %+v", is)
	}
}

// Under Bind a BackOff, which takes the place of AckWait, is heartbeated to fit.
func TestCase8_HeartbeatsFitABackOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.made(func(c *jetstream.ConsumerConfig) {
		c.MaxDeliver, c.BackOff = 10, []time.Duration{time.Second, 25 * time.Second}
	})
	p := r.replica(bind, work(func(m *consumer.Message) {
		<-time.After(3 * time.Second) // the work
		m.Ack()
	}))
	r.publish(1, 1)
	m := p.got(1)[0]
	p.ended(consumer.Acked, m)
	r.settled()
	if n := m.Deliveries(); n != 1 {
		t.Errorf("handed out %d times, want once", n)
	}
	if n := r.info().Delivered.Consumer; n != 1 {
		t.Errorf("the server handed out %d, want 1", n)
	}
	if is := r.info().Config; len(is.BackOff) != 2 || is.MaxDeliver != 10 {
		t.Errorf("the durable was changed to %+v", is)
	}
}

// The steps of a BackOff may grow shorter: heartbeats fit the shortest, which a later copy has to live with.
func TestCase8_HeartbeatsFitTheShortestStep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.made(func(c *jetstream.ConsumerConfig) {
		c.MaxDeliver, c.BackOff = 10, []time.Duration{3 * time.Second, time.Second}
	})
	p := r.replica(bind)
	r.publish(1, 1)
	p.got(1)[0].GiveBack(0)
	m := p.got(2)[1]
	p.beats(9) // 9/3 times 1 s
	if n := m.Deliveries(); n != 2 {
		t.Errorf("handed out %d times, want 2", n)
	}
	m.Ack()
	r.settled()
}

// Bind makes nothing.
func TestS9_BindMakesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.open(bind)
	names(t, err, durable, stream, "does not exist", "Bind")
	_, err = r.open(bind, with(func(cfg *consumer.Config) { cfg.Subjects = []string{"elsewhere.>"} }))
	names(t, err, "elsewhere.>", "Bind")
	_, err = r.open(bind, with(func(cfg *consumer.Config) { cfg.Stream.Name = "ELSEWHERE" }))
	names(t, err, "ELSEWHERE", "does not exist", "Bind")
}

// Somebody makes the durable unsafe while it is in use: it is said, by name.
func TestS9_DurableMadeUnsafeWhileInUse(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(hurry)
	cfg := p.info().Config
	cfg.MaxDeliver = 3
	_, err := p.js.UpdateConsumer(p.ctx(), stream, cfg)
	p.check("update", err)
	names(t, p.unhealthy(), "max_deliver", "3", "-1")
	cfg.MaxDeliver = -1
	_, err = p.js.UpdateConsumer(p.ctx(), stream, cfg)
	p.check("update", err)
	p.healthy()
	if n := len(p.log.containing("max_deliver")); n != 2 { // when it begins, and "after" it
		t.Errorf("logged %d times: %v", n, p.log.all())
	}
}

// What is wrong with a Config is said before anything is asked of the server.
func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.open(with(func(cfg *consumer.Config) {
		*cfg = consumer.Config{
			Durable: "a.b", AckWait: time.Millisecond, MaxAckPending: -1, HoldLimit: -1,
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		}
	}))
	names(t, err, "no subjects", `"a.b"`, "AckWait 1ms", "MaxAckPending -1", "hold limit", "DeliverPolicy")
	for _, name := range []string{"", "a b", "a*", "a>", "a/b", `a\b`, "a\tb", "a\x7fb", strings.Repeat("x", 256)} {
		if consumer.CheckName(name) == nil {
			t.Errorf("%q passes for a name", name)
		}
	}
	if err := consumer.CheckName("fleet_stage-kargo=2Erequests@0"); err != nil {
		t.Error(err)
	}
	_, err = r.open(with(func(cfg *consumer.Config) { cfg.Subjects = []string{"orders.*", "orders.created"} }))
	names(t, err, "overlap")
}
