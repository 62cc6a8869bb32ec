package jsource_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// refused starts a controller that does not start, and returns why.
func (w *world) refused(opts ...memberOf) error {
	w.tb.Helper()
	m := w.begin(opts...)
	select {
	case <-m.done:
	case <-m.running:
		w.tb.Error("it starts")
	case <-time.After(natstest.Patience):
		w.tb.Fatal("it neither starts nor fails")
	}
	return m.err
}

// untouched checks that there is no stream.
func (w *world) untouched() {
	w.tb.Helper()
	names := w.js.StreamNames(w.tb.Context())
	for name := range names.Name() {
		w.tb.Errorf("there is a stream %s", name)
	}
	if err := names.Err(); err != nil {
		w.tb.Error(err)
	}
}

// An option that cannot be meant so is an error at Start that says which, and nothing is made on the server.
func TestBadOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, tc := range map[string]struct {
		set  func(*widgetSource)
		want []string
	}{
		"Durable":           {func(s *widgetSource) { s.Durable("a.b") }, []string{"durable name", `"a.b"`}},
		"Durable, blank":    {func(s *widgetSource) { s.Durable("a b") }, []string{"durable name", `"a b"`}},
		"Durable, empty":    {func(s *widgetSource) { s.Durable("") }, []string{"durable name is empty"}},
		"Durable, long":     {func(s *widgetSource) { s.Durable(strings.Repeat("a", 256)) }, []string{"255"}},
		"QueueGroup":        {func(s *widgetSource) { s.QueueGroup(">") }, []string{"durable name", `">"`}},
		"PerReplica":        {func(s *widgetSource) { s.PerReplica("") }, []string{"PerReplica", "empty"}},
		"PerReplica, long":  {func(s *widgetSource) { s.PerReplica(strings.Repeat("a", 256)) }, []string{"255"}},
		"AckWait":           {func(s *widgetSource) { s.AckWait(-1) }, []string{"AckWait"}},
		"AckWait, zero":     {func(s *widgetSource) { s.AckWait(0) }, []string{"AckWait"}},
		"AckWait, short":    {func(s *widgetSource) { s.AckWait(time.Millisecond) }, []string{"AckWait 1ms", "30ms"}},
		"MaxAckPending":     {func(s *widgetSource) { s.MaxAckPending(0) }, []string{"MaxAckPending 0"}},
		"MaxAckPending, -1": {func(s *widgetSource) { s.MaxAckPending(-1) }, []string{"MaxAckPending -1"}},
		"MaxAttempts":       {func(s *widgetSource) { s.MaxAttempts(-1) }, []string{"MaxAttempts -1"}},
		"MaxDeliveries":     {func(s *widgetSource) { s.MaxDeliveries(0) }, []string{"MaxDeliveries 0"}},
		"HoldLimit":         {func(s *widgetSource) { s.HoldLimit(-1) }, []string{"HoldLimit"}},
		"Ignore":            {func(s *widgetSource) { s.Ignore("renamed") }, []string{`Ignore("renamed")`}},
		"Ignore, all": {
			func(s *widgetSource) { s.Ignore(nats.Created, nats.Updated, nats.Deleted) }, []string{"Ignore"},
		},
		"DeliverPolicy": {
			func(s *widgetSource) { s.DeliverPolicy(jetstream.DeliverByStartSequencePolicy) },
			[]string{"DeliverPolicy", "Bind"},
		},
		"Stream, name": {
			func(s *widgetSource) { s.Stream(jetstream.StreamConfig{Name: "a.b"}) }, []string{`Stream: the stream's name "a.b"`},
		},
		"Stream, subjects": {
			func(s *widgetSource) {
				s.Stream(jetstream.StreamConfig{Name: "A", Subjects: []string{"shop.widgets.created"}})
			},
			[]string{`stream "A"`, "subjects", "shop.widgets.updated"},
		},
		"Stream, retention": {
			func(s *widgetSource) {
				s.Stream(jetstream.StreamConfig{Name: "A", Retention: jetstream.InterestPolicy})
			},
			[]string{`stream "A"`, "retention is Interest"},
		},
		"DeadLetters, name": {
			func(s *widgetSource) { s.DeadLetters(jetstream.StreamConfig{Name: "a b"}) },
			[]string{"DeadLetters", `"a b"`},
		},
		"DeadLetters, subject": {
			func(s *widgetSource) { s.DeadLetters(jetstream.StreamConfig{Subjects: []string{"dead"}}) },
			[]string{"DeadLetters", `"dead"`, "tree"},
		},
		"DeadLetters, wildcard": {
			func(s *widgetSource) { s.DeadLetters(jetstream.StreamConfig{Subjects: []string{"*.dead.>"}}) },
			[]string{"DeadLetters", `"*.dead.>"`},
		},
		"DeadLetters, everything": {
			func(s *widgetSource) { s.DeadLetters(jetstream.StreamConfig{Subjects: []string{">"}}) },
			[]string{"DeadLetters", `">"`},
		},
		"DeadLetters, retention": {
			func(s *widgetSource) {
				s.DeadLetters(jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
			},
			[]string{"DeadLetters", "retention is WorkQueue"},
		},
		"Bind":  {func(s *widgetSource) { s.Bind() }, []string{"shop.widgets", "Bind forbids"}},
		"Track": {func(s *widgetSource) { s.Track(nil) }, []string{"Track", "nil"}},
		"two of them": {
			func(s *widgetSource) { s.MaxAttempts(-1).MaxDeliveries(-2) },
			[]string{"MaxAttempts -1", "MaxDeliveries -2"},
		},
	} {
		err := w.refused(withSource(tc.set))
		expectError(t, err, append(tc.want, `controller "keeper"`, "shop.widgets")...)
		if t.Failed() {
			t.Errorf("that was %s", name)
		}
	}
	w.untouched()
}

// So is what the constructors are given.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var none nats.Mapper[string, widget, string]
	for what, tc := range map[string]struct {
		src  reconciler.Source[string]
		want []string
	}{
		"a nil mapper":  {jsource.Mapped(w.srv.Conn(), widgets, none), []string{"mapper is nil"}},
		"no connection": {jsource.Subject(nil, widgets), []string{"connection is nil"}},
		"a topic": {
			jsource.Subject(w.srv.Conn(), nats.NewTopic[string, widget]("shop.*")),
			[]string{`prefix "shop.*"`, "wildcard"},
		},
		"an empty topic": {
			jsource.Subject(w.srv.Conn(), nats.NewTopic[string, widget]("")), []string{`prefix ""`, "empty"},
		},
	} {
		err := w.refused(watchingOnly(tc.src))
		expectError(t, err, append(tc.want, `controller "keeper"`)...)
		if t.Failed() {
			t.Errorf("that was %s", what)
		}
	}
	w.untouched()
}

// A source without a tracker cannot work with another engine, and says what to do. With one it needs a name.
func TestSourceOfAnotherEngineNeedsATracker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := make(chan string)
	err := jsource.Subject(w.srv.Conn(), widgets).Start(t.Context(), out)
	expectError(t, err, "shop.widgets", "no tracker", "Track", "queue.Wrap", "Drain")
	err = jsource.Subject(w.srv.Conn(), widgets).Track(queue.NewTracker[string]()).Start(t.Context(), out)
	expectError(t, err, "shop.widgets", "Track", "Durable")
	err = w.refused(withSource(func(s *widgetSource) { s.Durable("d").Track(queue.NewTracker[string]()) }))
	expectError(t, err, `controller "keeper"`, "Track is for other engines", "remove it")
	w.untouched()
}

// A source is started once.
func TestSourceIsStartedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.engineOf(func(context.Context, nats.Event[string, widget]) ([]string, error) { return nil, nil })
	expectError(t, e.source.Start(t.Context(), make(chan string)), "shop.widgets", "started before")
	if err := e.source.Healthy(); err != nil {
		t.Errorf("the first is unhealthy: %v", err)
	}

	src := jsource.Subject(w.srv.Conn(), widgets)
	err := w.refused(watchingOnly(reconciler.Source[string](src), reconciler.Source[string](src)))
	expectError(t, err, `controller "keeper"`, "source 2", "started before")
}

// One that could not start may be started again.
func TestSourceThatFailedToStartMayBeStartedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	src := jsource.Subject(w.srv.Conn(), widgets).Bind()
	expectError(t, w.refused(watchingOnly(reconciler.Source[string](src))), "Bind forbids")
	expectError(t, src.Healthy(), "not started")
	if err := src.Drain(t.Context()); err != nil {
		t.Errorf("Drain: %v", err)
	}
	w.join().stop() // makes what was missing
	m := w.join(watchingOnly(reconciler.Source[string](src)))
	w.publish("a")
	m.waitDone(t, "a")
	w.settled()
}

// Requests of a source and a controller are of one type; where the compiler cannot tell, Start does.
func TestRequestsOfAnotherType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.refused(watchingOnly(reconciler.Source[string](wrongType{w})))
	expectError(t, err, `controller "keeper"`, "another type")
	w.untouched()
}

// wrongType starts a source of ints in a controller of strings.
type wrongType struct{ w *world }

func (s wrongType) Start(ctx context.Context, _ chan<- string) error {
	src := jsource.Mapped(s.w.srv.Conn(), widgets, func(context.Context, nats.Event[string, widget]) []int {
		return nil
	})
	return src.Start(ctx, make(chan int))
}

// S12: two sources of one controller on one topic without names would share a durable.
func TestTwoSourcesOnOneTopic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	two := func(name string) error {
		first, second := jsource.Subject(w.srv.Conn(), widgets), jsource.Subject(w.srv.Conn(), widgets)
		if name != "" {
			second.Durable(name)
		}
		m := w.begin(watchingOnly(reconciler.Source[string](first), reconciler.Source[string](second)))
		select {
		case <-m.done:
			return m.err
		case <-m.running:
			w.publish("a")
			natstest.WaitSettled(t, w.js, widgetStream, widgetDurable)
			natstest.WaitSettled(t, w.js, widgetStream, name)
			m.stop()
			m.wait()
			return nil
		}
	}
	expectError(t, two(""), `controller "keeper"`, "source 2", "two sources of one controller would share a durable",
		widgetDurable, "source 1", "Durable")
	if err := two("second"); err != nil {
		t.Errorf("with a name of its own: %v", err)
	}
}

// S12: in a controller that runs in every replica a source has to say who gets what.
func TestEveryReplicaNeedsAChoice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := func(change func(*widgetSource)) error {
		src := jsource.Subject(w.srv.Conn(), widgets)
		if change != nil {
			change(src)
		}
		running := make(chan struct{})
		c, err := reconciler.New[string](keeper).Logger(w.log).Watch(src, started(running)).
			Func(func(context.Context, string) (reconciler.Result, error) { return reconciler.Result{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(reconciler.WithEveryReplica(t.Context()))
		defer cancel()
		go func() {
			select {
			case <-running:
				cancel()
			case <-ctx.Done():
			}
		}()
		return c.Start(ctx)
	}
	expectError(t, start(nil), `controller "keeper"`, "shop.widgets", "every replica", "core NATS", "Durable(name)",
		"QueueGroup(name)", "PerReplica(id)")
	w.untouched()
	for what, change := range map[string]func(*widgetSource){
		"Durable":    func(s *widgetSource) { s.Durable("mine") },
		"QueueGroup": func(s *widgetSource) { s.QueueGroup("ours") },
		"PerReplica": func(s *widgetSource) { s.PerReplica("pod-0") },
	} {
		if err := start(change); err != nil {
			t.Errorf("with %s: %v", what, err)
		}
	}
	var durables []string
	names := w.mustStream(widgetStream).ConsumerNames(t.Context())
	for name := range names.Name() {
		durables = append(durables, name)
	}
	if got := fmt.Sprint(durables); got != "[keeper-shop_widgets@pod-0 mine ours]" {
		t.Errorf("the durables are %v", got)
	}
}

// mustStream is a stream that exists.
func (w *world) mustStream(name string) jetstream.Stream {
	w.tb.Helper()
	s, err := w.js.Stream(w.tb.Context(), name)
	if err != nil {
		w.tb.Fatal(err)
	}
	return s
}

// PerReplica: every replica gets every event; the server lets go of one that has been away for long.
func TestPerReplicaGetsEveryEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pods := []string{"pod-0", "pod-1", "pod-2"}
	var members []*member
	for _, pod := range pods {
		members = append(members, w.join(withSource(func(s *widgetSource) { s.PerReplica(pod) })))
	}
	keys := numbered("k", 20)
	w.publish(keys...)
	for i, m := range members {
		durable := widgetDurable + "@" + pods[i]
		natstest.WaitSettled(t, w.js, widgetStream, durable)
		m.expectOnce(t, keys...)
		if d := natstest.ConsumerInfo(t, w.js, widgetStream, durable).Config.InactiveThreshold; d != 7*24*time.Hour {
			t.Errorf("%s is kept for %v", durable, d)
		}
	}
}

// Without PerReplica, replicas share the events.
func TestReplicasShareTheEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.join(), w.join()
	keys := numbered("k", 200)
	w.publish(keys...)
	w.settled()
	for req, n := range b.begun() {
		if a.begun()[req]+n != 1 {
			t.Errorf("%d attempts on %s", a.begun()[req]+n, req)
		}
	}
	if got := len(a.begun()) + len(b.begun()); got != len(keys) {
		t.Errorf("%d requests reconciled, want %d", got, len(keys))
	}
}
