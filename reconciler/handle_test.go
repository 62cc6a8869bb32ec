package reconciler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
)

func TestHandle_ClaimNamesTheOtherSource(t *testing.T) {
	claims := func(name string) sourceFunc {
		return func(ctx context.Context, _ chan<- string) error {
			h, _ := reconciler.FromContext(ctx)
			return h.Claim(name)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBuilder(claims("durable"), claims("another"), brokenSource{claims("durable")})
		c := build(t, b, nothing)
		err := startFails(t, c)
		equal(t, "error", fmt.Sprint(err), `controller "invoices": starting source 3 (the broken one): "durable" `+
			`is already used by source 1 (reconciler_test.sourceFunc) of controller "invoices"`)
	})
}

func TestHandle_ResyncIsAskedOfEveryListAndNotOfOtherControllers(t *testing.T) {
	lists := func(name string, happened *journal) sourceFunc {
		return func(ctx context.Context, _ chan<- string) error {
			h, _ := reconciler.FromContext(ctx)
			h.OnResync(func(reason string) { happened.add("%s lists: %s", name, reason) })
			return nil
		}
	}
	recovers := sourceFunc(func(ctx context.Context, _ chan<- string) error {
		h, _ := reconciler.FromContext(ctx)
		h.RequestResync("the stream was lost")
		return nil
	})
	var happened, elsewhere journal
	started(t, newBuilder(lists("x", &elsewhere)))
	started(t, newBuilder(lists("a", &happened), lists("b", &happened), recovers))
	happened.expect(t, "a lists: the stream was lost", "b lists: the stream was lost")
	elsewhere.expect(t)
}

func TestHandle_KnowsWhetherEveryReplicaRuns(t *testing.T) {
	for _, every := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if every {
			ctx = reconciler.WithEveryReplica(ctx)
		}
		asked := false
		src := sourceFunc(func(ctx context.Context, _ chan<- string) error {
			h, _ := reconciler.FromContext(ctx)
			equal(t, "every replica", h.EveryReplica(), every)
			equal(t, "controller", h.Controller(), "invoices")
			asked = true
			cancel()
			return nil
		})
		equal(t, "error", build(t, newBuilder(src), nothing).Start(ctx), nil)
		equal(t, "asked", asked, true)
	}
}

func TestHandle_ThereIsNoneOutsideAController(t *testing.T) {
	h, ok := reconciler.FromContext(t.Context())
	equal(t, "handle", h, nil)
	equal(t, "ok", ok, false)
	equal(t, "tracker", reconciler.TrackerFrom[string](t.Context()), nil)
	equal(t, "pushed", reconciler.PushLow(t.Context(), "a"), false)
}

func TestHandle_TrackerOfAnotherTypeIsNone(t *testing.T) {
	src := sourceFunc(func(ctx context.Context, _ chan<- string) error {
		equal(t, "tracker", reconciler.TrackerFrom[int](ctx), nil)
		equal(t, "there is one", reconciler.TrackerFrom[string](ctx) != nil, true)
		return nil
	})
	started(t, newBuilder(src))
}

// What can wait gives way to events, and is not the resync's.
func TestN1_PushLowGivesWayToEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		low := sourceFunc(func(ctx context.Context, _ chan<- string) error {
			equal(t, "pushed", reconciler.PushLow(ctx, "low"), true)
			equal(t, "a request of another type pushed", reconciler.PushLow(ctx, 1), false)
			return nil
		})
		var happened journal
		c := build(t, newBuilder(low, resyncs("resync"), events("event")),
			func(_ context.Context, req string) (result, error) {
				happened.add("%s", req)
				return result{}, nil
			})
		stop := start(t, c)
		pass(time.Second)
		stopped(t, stop)
		happened.expect(t, "event", "low", "resync")
		equal(t, "stats", c.Stats(), reconciler.Stats{Attempts: 3, ResyncOnly: 1})
	})
}

// The tracker suspects no request that waits in the queue, is delayed or is being worked on, however long.
func TestL6_TheEngineSaysWhatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group *queue.Group[string]
		src := sourceFunc(func(ctx context.Context, out chan<- string) error {
			group = reconciler.TrackerFrom[string](ctx).NewGroup(queue.GroupOptions{})
			for _, req := range []string{"delayed", "works", "waits"} {
				m := &message{}
				group.Register(&m.Entry, m, []string{req})
				push(ctx, out, req)
			}
			m := &message{}
			group.Register(&m.Entry, m, []string{"never pushed"})
			return nil
		})
		release := make(chan struct{})
		c := build(t, newBuilder(src), func(_ context.Context, req string) (result, error) {
			if req == "works" {
				<-release
			}
			return result{Unfinished: true, RequeueAfter: 100 * time.Hour}, nil
		})
		stop := start(t, c)
		for range 3 {
			pass(time.Hour)
			again, lost := group.Overdue(time.Minute)
			equal(t, "to be pushed again", fmt.Sprint(again), "[]")
			equal(t, "lost", len(lost), 0)
		}
		close(release)
		pass(time.Hour)
		again, _ := group.Overdue(time.Minute)
		equal(t, "to be pushed again", fmt.Sprint(again), "[never pushed]")
		stopped(t, stop)
	})
}
