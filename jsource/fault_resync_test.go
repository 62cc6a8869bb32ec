package jsource_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/list"
	"github.com/levelstream/jsource/reconciler/nats"
)

// N1: a thousand requests of a list are queued when events arrive. The events go first, and the list is not
// starved by them: one attempt in eight is on one of its requests.
func TestEventsGoBeforeTheResync(t *testing.T) {
	w := newWorld(t)
	listed, events := numbered("listed", 1000), numbered("event", 80)
	a := w.join(watching(list.New(func(context.Context) ([]string, error) { return listed, nil })),
		holding(listed[0], "event"))
	w.publish("event") // one attempt blocks the worker, on whichever comes first
	natstest.Until(t, "an attempt", natstest.Patience, func() bool { return len(a.all()) > 0 })
	w.publish(events...)
	natstest.Eventually(t, "all are queued", natstest.Patience, func() error {
		if n := a.ctl.Stats().Queued; n != 1080 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	a.release(listed[0], "event")
	a.waitDone(t, append(events, listed...)...)

	const eighth = 8
	resync := 0
	last := 0 // position of the last event
	for i, run := range a.all() {
		if strings.HasPrefix(run.req, "event") {
			last = i
		}
	}
	for _, run := range a.all()[:last] {
		if strings.HasPrefix(run.req, "listed") {
			resync++
		}
	}
	if most := last/eighth + 1; resync > most {
		t.Errorf("%d attempts on listed requests among the first %d, until the last event: want at most %d", resync, last, most)
	}
	if least := last/eighth - 1; resync < least {
		t.Errorf("%d attempts on listed requests among the first %d, until the last event: want at least %d", resync, last, least)
	}
	a.expectOnce(t, append(append(events, listed...), "event")...)
	w.settled()
}

// N2: what the resync finds that events missed is counted. Of two changes one is published while the
// controller has no connection. Core NATS loses that event, and the next list brings it up: 1. The durable
// source receives it later: 0.
func TestResyncCountsWhatEventsMissed(t *testing.T) {
	for name, c := range map[string]struct {
		source func(*natsgo.Conn) reconciler.Source[string]
		missed uint64
	}{
		"core NATS": {func(conn *natsgo.Conn) reconciler.Source[string] { return nats.Subject(conn, widgets) }, 1},
		"JetStream": {func(conn *natsgo.Conn) reconciler.Source[string] { return jsource.Subject(conn, widgets) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			proxy := natstest.NewProxy(t, w.srv.Addr())
			conn := natstest.Connect(t, proxy.URL())
			table := &versions{want: map[string]int{}, have: map[string]int{}}
			a := w.join(watchingOnly(c.source(conn), list.New(table.list).Every(20*time.Millisecond)), doing(table.apply))

			table.commit("seen")
			w.publish("seen")
			a.waitDone(t, "seen")

			proxy.Refuse(true)
			proxy.Cut()
			table.commit("missed")
			w.publish("missed")
			proxy.Refuse(false)
			natstest.WaitConnected(t, conn)
			table.commit("after")
			w.publish("after")
			a.waitDone(t, "after")
			if c.missed == 0 {
				a.waitDone(t, "missed")
			} else if n := a.begun()["missed"]; n != 0 {
				t.Fatalf("core NATS did not lose the event: %d attempts", n)
			}
			lists := table.open()
			natstest.Until(t, "a list of all", natstest.Patience, func() bool {
				return a.ctl.Stats().ResyncOnly >= 3*lists() && lists() > 0 && a.ctl.Stats().Queued == 0
			})
			if n := a.ctl.Stats().ResyncChanged; n != c.missed {
				t.Errorf("%d attempts of the resync changed something, want %d", n, c.missed)
			}
			if !table.applied() {
				t.Error("the resync did not repair what the events missed")
			}
		})
	}
}

// versions is a world to be brought in line: what rows want to be, and what they are.
type versions struct {
	mu         sync.Mutex
	want, have map[string]int
	opened     bool
	lists      uint64 // since it was opened
}

func (v *versions) commit(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.want[key]++
}

// apply is the Reconciler.
func (v *versions) apply(_ context.Context, key string) (reconciler.Result, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	changed := v.have[key] != v.want[key]
	v.have[key] = v.want[key]
	return reconciler.Result{Changed: changed}, nil
}

// list lists all rows, once it was opened; once is enough.
func (v *versions) list(context.Context) (keys []string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.opened || v.lists > 0 {
		return nil, nil
	}
	v.lists++
	for key := range v.want {
		keys = append(keys, key)
	}
	return keys, nil
}

// open lets list do its work, and returns what counts its lists.
func (v *versions) open() (lists func() uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.opened = true
	return func() uint64 {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.lists
	}
}

func (v *versions) applied() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, n := range v.want {
		if v.have[key] != n {
			return false
		}
	}
	return true
}
