package jsource_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

func (c conformance[S]) subjectRequestsTheKey() {
	m := c.controller(keeper, c.subject(c.conn, c.topic))
	c.created("a")
	c.updated("b", widget{}, widget{Version: 1})
	c.deleted("c", widget{})
	c.last(m)
	c.expectOnly(m, "a", "b", "c")
}

func (c conformance[S]) mappedRequestsWhatTheMapperReturns() {
	m := c.controller(keeper, c.mapped(c.conn, c.topic, func(_ context.Context, e nats.Event[string, widget]) []string {
		return []string{"of " + e.Key}
	}))
	c.created("a", "b")
	m.waitDone(c.T, "of a", "of b")
	m.expectOnce(c.T, "of a", "of b")
}

func (c conformance[S]) eventsAreAsTheirKindDemands() {
	var seen eventLog
	m := c.controller(keeper, c.mapped(c.conn, c.topic, seen.mapper))
	red, blue := widget{Version: 7, Color: "red"}, widget{Version: 8, Color: "blue"}
	c.created("a")
	c.updated("b", red, blue)
	c.deleted("c", blue)
	c.last(m)
	want := []nats.Event[string, widget]{
		{Kind: nats.Created, Key: "a", New: &widget{Version: 1}},
		{Kind: nats.Updated, Key: "b", Old: &red, New: &blue},
		{Kind: nats.Deleted, Key: "c", Old: &blue},
	}
	got := seen.all()
	for i, w := range want {
		if g := got[i]; g.Kind != w.Kind || g.Key != w.Key || !same(g.Old, w.Old) || !same(g.New, w.New) {
			c.Errorf("event %d: got %+v, want %+v", i, g, w)
		}
	}
}

func same(a, b *widget) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func (c conformance[S]) inOrder() {
	var seen eventLog
	m := c.controller(keeper, c.mapped(c.conn, c.topic, seen.mapper))
	for v := range 100 {
		c.check(c.topic.PublishUpdated(c.conn, "a", widget{}, widget{Version: v}))
	}
	c.last(m)
	for v, e := range seen.all()[:100] {
		if e.New.Version != v {
			c.Fatalf("event %d has version %d", v, e.New.Version)
		}
	}
}

func (c conformance[S]) oneAtATime() {
	var inside, most atomic.Int32
	m := c.controller(keeper, c.mapped(c.conn, c.topic, func(_ context.Context, e nats.Event[string, widget]) []string {
		most.Store(max(most.Load(), inside.Add(1)))
		defer inside.Add(-1)
		time.Sleep(time.Millisecond) // so that another would be seen; nothing waits for it
		return []string{e.Key}
	}).Ignore()) // several kinds, several subscriptions perhaps
	for range 10 {
		c.created("a")
		c.updated("a", widget{}, widget{})
		c.deleted("a", widget{})
	}
	c.last(m)
	if most.Load() != 1 {
		c.Errorf("%d events were mapped at once", most.Load())
	}
}

func (c conformance[S]) theEventIsTheMappersOwn() {
	m := c.controller(keeper, c.mapped(c.conn, c.topic, func(_ context.Context, e nats.Event[string, widget]) []string {
		key := e.Key
		e.New.Color, e.Key = "painted over", ""
		return []string{key}
	}))
	c.created("a")
	c.last(m)
	c.expectOnly(m, "a")
}

func (c conformance[S]) severalRequests() {
	m := c.controller(keeper, c.mapped(c.conn, c.topic, func(_ context.Context, e nats.Event[string, widget]) []string {
		return []string{e.Key + "1", e.Key + "2", e.Key + "3"}
	}))
	c.created("a", "b")
	m.waitDone(c.T, "a1", "a2", "a3", "b1", "b2", "b3")
	m.expectOnce(c.T, "a1", "a2", "a3", "b1", "b2", "b3")
}

func (c conformance[S]) duplicates() {
	m := c.controller(keeper, c.mapped(c.conn, c.topic, func(_ context.Context, e nats.Event[string, widget]) []string {
		return []string{e.Key, e.Key, "other " + e.Key, e.Key}
	}))
	m.hold("busy")
	c.created("busy")
	m.waitBegun(c.T, "busy")
	c.created("a", "end")
	// All that the first event asks for is queued when something of the second is: "other busy", "a",
	// "other a", "end", "other end".
	natstest.Until(c.T, "all are queued", natstest.Patience, func() bool { return m.ctl.Stats().Queued == 5 })
	m.release("busy")
	m.waitDone(c.T, "a", "other a", "end", "other end")
	if n := m.begun()["a"]; n != 1 {
		c.Errorf("reconciled %d times, want once", n)
	}
}

func (c conformance[S]) noRequest() {
	m := c.controller(keeper, c.mapped(c.conn, c.topic, func(_ context.Context, e nats.Event[string, widget]) []string {
		switch e.Key {
		case "none":
			return nil
		case "empty":
			return []string{}
		}
		return []string{e.Key}
	}))
	c.created("none", "empty")
	c.last(m)
	c.expectOnly(m)
}

func (c conformance[S]) deduplicate() {
	m := c.controller(keeper, c.subject(c.conn, c.topic))
	m.hold("busy")
	c.created("busy")
	m.waitBegun(c.T, "busy")
	for v := range 20 {
		c.updated("a", widget{Version: v}, widget{Version: v + 1})
	}
	c.created("last")
	natstest.Until(c.T, "both are queued", natstest.Patience, func() bool { return m.ctl.Stats().Queued == 2 })
	m.release("busy")
	m.waitDone(c.T, "last")
	c.expectOnly(m, "busy", "a")
}

func (c conformance[S]) onCreate() {
	m := c.controller(keeper, c.subject(c.conn, c.topic).OnCreate(func(w widget) bool { return w.Color != "red" }))
	c.check(c.topic.PublishCreated(c.conn, "red", widget{Color: "red"}))
	c.check(c.topic.PublishCreated(c.conn, "blue", widget{Color: "blue"}))
	c.updated("updated", widget{}, widget{Color: "red"})
	c.deleted("deleted", widget{Color: "red"})
	c.last(m)
	c.expectOnly(m, "blue", "updated", "deleted")
}

func (c conformance[S]) onUpdate() {
	m := c.controller(keeper, c.subject(c.conn, c.topic).
		OnUpdate(func(old, updated widget) bool { return old.Version+1 == updated.Version }))
	c.updated("next", widget{Version: 1}, widget{Version: 2})
	c.updated("same", widget{Version: 1}, widget{Version: 1})
	c.updated("back", widget{Version: 2}, widget{Version: 1})
	c.created("created")
	c.deleted("deleted", widget{})
	c.last(m)
	c.expectOnly(m, "next", "created", "deleted")
}

func (c conformance[S]) onDelete() {
	m := c.controller(keeper, c.subject(c.conn, c.topic).OnDelete(func(w widget) bool { return w.Color != "red" }))
	c.deleted("red", widget{Color: "red"})
	c.deleted("blue", widget{Color: "blue"})
	c.check(c.topic.PublishCreated(c.conn, "created", widget{Color: "red"}))
	c.updated("updated", widget{Color: "red"}, widget{Color: "red"})
	c.last(m)
	c.expectOnly(m, "blue", "created", "updated")
}

func (c conformance[S]) ignore() {
	refuse := func(widget) bool {
		c.Error("a filter was asked about a kind that is ignored")
		return true
	}
	m := c.controller(keeper, c.subject(c.conn, c.topic).Ignore(nats.Deleted, nats.Updated).OnDelete(refuse))
	c.created("created")
	c.updated("updated", widget{}, widget{})
	c.deleted("deleted", widget{})
	c.last(m)
	c.expectOnly(m, "created")
}

func (c conformance[S]) lastFilterCounts() {
	none := func(widget) bool { return false }
	m := c.controller(keeper, c.subject(c.conn, c.topic).
		OnCreate(none).OnCreate(nil).
		OnUpdate(nil).OnUpdate(func(_, updated widget) bool { return updated.Version == 2 }).
		OnDelete(none).OnDelete(func(widget) bool { return true }).
		Ignore(nats.Created, nats.Updated, nats.Deleted).Ignore().
		QueueGroup("first").QueueGroup("second"))
	c.created("created")
	c.updated("updated1", widget{}, widget{Version: 1})
	c.updated("updated2", widget{}, widget{Version: 2})
	c.deleted("deleted", widget{})
	c.last(m)
	c.expectOnly(m, "created", "updated2", "deleted")
}

// Two replicas with the same queue group share the events: each goes to one of them, and both get some.
func (c conformance[S]) queueGroupShares() {
	a := c.controller(keeper, c.subject(c.conn, c.topic).QueueGroup("group"))
	b := c.controller(keeper, c.subject(c.srv.Conn(), c.topic).QueueGroup("group"))
	keys := numbered("key", 60)
	c.created(keys...)
	natstest.Eventually(c.T, "all are reconciled", natstest.Patience, func() error {
		return missing(together(a, b), keys)
	})
	for key, n := range together(a, b) {
		if n != 1 {
			c.Errorf("%s was reconciled %d times", key, n)
		}
	}
	if len(a.all()) == 0 || len(b.all()) == 0 {
		c.Errorf("one replica reconciled %d, the other %d", len(a.all()), len(b.all()))
	}
}

// together counts attempts over several replicas.
func together(members ...*member) map[string]int {
	counts := map[string]int{}
	for _, m := range members {
		for req, n := range m.begun() {
			counts[req] += n
		}
	}
	return counts
}

// Two groups each get every event, also of one controller.
func (c conformance[S]) queueGroupsEachGetAll() {
	a := c.controller(keeper, c.subject(c.conn, c.topic).QueueGroup("first"))
	b := c.controller(keeper, c.subject(c.conn, c.topic).QueueGroup("second"))
	c.everyoneGetsAll(a, b)
}

// Meant to differ: two controllers of different names and the same queue group share the events of core NATS.
// With the durable source a group is a durable, and that belongs to the controller that made it: another one
// must not take events away from it by mistake, and is refused.
func (c conformance[S]) queueGroupOfAnother() {
	a := c.controller("first", c.subject(c.conn, c.topic).QueueGroup("group"))
	b := c.start("second", c.subject(c.conn, c.topic).QueueGroup("group"))
	keys := numbered("key", 20)
	if !c.durable {
		b.waitRunning()
		c.created(keys...)
		natstest.Eventually(c.T, "all are reconciled", natstest.Patience, func() error {
			return missing(together(a, b), keys)
		})
		return
	}
	if err := b.failure(); err == nil || !strings.Contains(err.Error(), `"first"`) {
		c.Errorf("Start returned %v", err)
	}
	c.everyoneGetsAll(a)
}

// Two controllers with names of their own each get every event, with no queue group at all.
func (c conformance[S]) controllersEachGetAll() {
	a := c.controller("first", c.subject(c.conn, c.topic))
	b := c.controller("second", c.subject(c.conn, c.topic))
	c.everyoneGetsAll(a, b)
}

func (c conformance[S]) everyoneGetsAll(members ...*member) {
	c.Helper()
	keys := numbered("key", 10)
	c.created(keys...)
	for _, m := range members {
		m.waitDone(c.T, keys...)
		m.expectOnce(c.T, keys...)
	}
}

// Meant to differ: of two replicas of one controller without a queue group, core NATS gives every event to
// each; the durable source gives it to one, unless PerReplica says that each is to have it.
func (c conformance[S]) withoutQueueGroup() {
	replica := func(id string) *member {
		src := c.subject(c.srv.Conn(), c.topic)
		if durable, ok := any(src).(*widgetSource); ok && id != "" {
			durable.PerReplica(id)
		}
		return c.controller(keeper, src)
	}
	c.everyoneGetsAll(replica("a"), replica("b"))
	if !c.durable {
		return
	}
	a, b := replica(""), replica("")
	keys := append(numbered("key", 10), numbered("more", 50)...) // those published above are new to it
	c.created(keys[10:]...)
	natstest.Eventually(c.T, "all are reconciled", natstest.Patience, func() error {
		return missing(together(a, b), keys)
	})
	for key, n := range together(a, b) {
		if n != 1 {
			c.Errorf("%s was reconciled %d times", key, n)
		}
	}
}

// A panicking mapper ends neither the process nor the source. Meant to differ: core NATS drops the event, the
// durable source maps it again.
func (c conformance[S]) panickingMapper() {
	var once sync.Once
	m := c.controller(keeper, c.mapped(c.conn, c.topic, func(_ context.Context, e nats.Event[string, widget]) []string {
		if e.Key == "bad" {
			once.Do(func() { panic("the mapper's") })
		}
		return []string{e.Key}
	}))
	c.created("bad", "good")
	c.last(m)
	c.expectLater(m, "bad", "good")
}

// The same of a panicking filter.
func (c conformance[S]) panickingFilter() {
	var once sync.Once
	m := c.controller(keeper, c.subject(c.conn, c.topic).OnUpdate(func(widget, widget) bool {
		once.Do(func() { panic("the filter's") })
		return true
	}))
	c.updated("bad", widget{}, widget{})
	c.created("good")
	c.last(m)
	c.expectLater(m, "bad", "good")
}

// expectLater checks that good was reconciled, and bad later on, where that is what a durable source does.
func (c conformance[S]) expectLater(m *member, bad, good string) {
	c.Helper()
	if c.durable {
		m.waitDone(c.T, bad)
		c.expectOnly(m, bad, good)
	} else {
		c.expectOnly(m, good)
	}
}

// An event that cannot be decoded ends neither the process nor the source, and asks for nothing. (What becomes
// of it differs: dropped by the one, given back and then a dead letter with the other.)
func (c conformance[S]) undecodable() {
	m := c.controller(keeper, c.subject(c.conn, c.topic))
	for _, data := range []string{
		"", "\x00", "{", "null", "7", `"text"`, "{}", `{"kind":"created"}`, `{"kind":"created","key":"x"}`,
		`{"kind":"deleted","key":"x","new":{}}`, `{"kind":"created","key":7,"new":{}}`,
		`{"kind":"created","key":"x","new":{"version":"one"}}`, `{"kind":"created","key":"x","new":{}} more`,
	} {
		c.check(c.conn.Publish(c.topic.SubjectOf(nats.Created), []byte(data)))
	}
	c.last(m)
	c.expectOnly(m)
}

// What is published further down the subject tree belongs to another topic.
func (c conformance[S]) lowerTopic() {
	m := c.controller(keeper, c.subject(c.conn, c.topic))
	lower := nats.NewTopic[string, widget](c.topic.Prefix() + ".parts")
	c.check(lower.PublishCreated(c.conn, "part", widget{}))
	c.check(c.conn.Publish(c.topic.Prefix()+".renamed", []byte("{}")))
	c.last(m)
	c.expectOnly(m)
}

// The context a mapper gets lasts as long as the source runs.
func (c conformance[S]) mappersContext() {
	contexts := make(chan context.Context, 1)
	m := c.controller(keeper, c.mapped(c.conn, c.topic, func(ctx context.Context, e nats.Event[string, widget]) []string {
		contexts <- ctx
		return []string{e.Key}
	}))
	c.last(m)
	ctx := <-contexts
	if ctx.Err() != nil {
		c.Errorf("it has ended: %v", ctx.Err())
	}
	m.stop()
	m.wait()
	select {
	case <-ctx.Done():
	case <-time.After(natstest.Patience):
		c.Error("it has not ended, and the source has stopped")
	}
}

// Whoever publishes through JetStream reaches both, so that publishers can be changed first.
func (c conformance[S]) publisher() {
	m := c.controller(keeper, c.subject(c.conn, c.topic))
	pub, err := jsource.NewPublisher(c.conn)
	c.check(err)
	c.check(c.topic.PublishCreated(pub, "a", widget{}))
	_, err = jsource.PublishDeleted(c.Context(), pub, c.topic, "b", widget{})
	c.check(err)
	c.last(m)
	c.expectOnly(m, "a", "b")
}

// Meant to differ, and what the durable source is for (case 30): what was published while the controller was
// stopped is reconciled when it is back, without a resync. Core NATS loses it.
func (c conformance[S]) whileStopped() {
	m := c.controller(keeper, c.subject(c.conn, c.topic))
	c.created("first")
	m.waitDone(c.T, "first")
	m.stop()
	m.wait()
	missed := numbered("missed", 1000)
	c.created(missed...)
	m = c.controller(keeper, c.subject(c.conn, c.topic))
	c.created("last") // behind all the others, in one queue with one worker
	if c.durable {
		m.waitDone(c.T, append(missed, "last")...)
		c.expectOnly(m, missed...)
	} else {
		m.waitDone(c.T, "last")
		c.expectOnly(m)
	}
}

// What cannot work is an error of Start that says so, and the engine names controller and source.
func (c conformance[S]) errorsOfStart() {
	other := func(prefix string) widgetTopic { return nats.NewTopic[string, widget](prefix) }
	for what, src := range map[string]struct {
		source S
		says   string
	}{
		"no topic":        {c.subject(c.conn, other("")), "prefix"},
		"a wildcard":      {c.subject(c.conn, other("shop.*")), "wildcard"},
		"no connection":   {c.subject(nil, c.topic), "connection"},
		"no mapper":       {c.mapped(c.conn, c.topic, nil), "mapper is nil"},
		"all kinds":       {c.subject(c.conn, c.topic).Ignore(nats.Created, nats.Updated, nats.Deleted), "Ignore"},
		"an unknown kind": {c.subject(c.conn, c.topic).Ignore("renamed"), "renamed"},
		"a closed one":    {c.subject(closedConn(c.srv.Conn()), c.topic), "closed"},
		"an empty token":  {c.subject(c.conn, other("shop..widgets")), "empty token"},
	} {
		err := c.start(keeper, src.source).failure()
		if err == nil {
			c.Errorf("%s: no error", what)
			continue
		}
		for _, word := range []string{keeper, "source 1", src.says} {
			if !strings.Contains(err.Error(), word) {
				c.Errorf("%s: error %q does not say %q", what, err, word)
			}
		}
	}
	if named := c.subject(c.conn, c.topic).String(); !strings.Contains(named, c.topic.Subject()) {
		c.Errorf("String is %q, without %q", named, c.topic.Subject())
	}
}

func closedConn(conn *natsgo.Conn) *natsgo.Conn {
	conn.Close()
	return conn
}

// Meant to differ: a core-NATS source may be started several times, a durable one keeps an account and may not.
func (c conformance[S]) startedTwice() {
	src := c.subject(c.conn, c.topic)
	c.controller("first", src)
	again := c.start("second", src)
	if !c.durable {
		again.waitRunning()
		return
	}
	if err := again.failure(); err == nil || !strings.Contains(err.Error(), "started before") {
		c.Errorf("the second Start returned %v", err)
	}
}

// Start waits for a server that is not there yet. Without one it waits as long as its context lasts, and a
// controller that is stopped meanwhile has stopped cleanly.
func (c conformance[S]) serverComesLater() {
	srv := natstest.Start(c.T)
	srv.Stop()
	c.conn = srv.Conn()
	tired := c.start("tired", c.subject(c.conn, c.topic))
	m := c.start(keeper, c.subject(c.conn, c.topic))
	tired.stop()
	tired.wait()
	if isClosed(tired.running) || isClosed(m.running) || m.returned() {
		c.Error("it started, or gave up, without a server")
	}
	srv.Restart()
	m.waitRunning()
	natstest.WaitConnected(c.T, c.conn)
	c.last(m)
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// eventLog is a mapper that keeps the events.
type eventLog struct {
	mu   sync.Mutex
	seen []nats.Event[string, widget]
}

func (l *eventLog) mapper(_ context.Context, e nats.Event[string, widget]) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, e)
	return []string{e.Key}
}

func (l *eventLog) all() []nats.Event[string, widget] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

var _ reconciler.Source[string] = (*widgetSource)(nil)
