package jsource_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler/nats"
)

type tryMapper = func(context.Context, nats.Event[string, widget]) ([]string, error)

// failing is a mapper that fails as long as until says so.
func failing(calls *atomic.Int64, until func(call int64) bool) tryMapper {
	return func(_ context.Context, e nats.Event[string, widget]) ([]string, error) {
		if until(calls.Add(1)) {
			return []string{"half"}, errTest
		}
		return []string{e.Key}, nil
	}
}

// S7, case 18: a message whose mapper fails is given back with delays that double, so that in some time it is handed
// out about as often as the logarithm of that time allows, and nothing is lost.
func TestFailingMapperIsAskedLessAndLess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var calls atomic.Int64
	began := time.Now()
	m := w.join(tryMappedBy(w.srv.Conn(), failing(&calls, func(n int64) bool { return n <= 5 }), nil))
	r := w.publish("a")[0]
	w.settled()
	m.expectOnce(t, "a")
	// After 0, 100, 300, 700, 1500 and 3100 milliseconds, give or take a fifth each time.
	if n, took := calls.Load(), time.Since(began); n != 6 || took < 3100*time.Millisecond*4/5 {
		t.Errorf("mapped %d times in %v, want 6 times in 3.1 seconds", n, took)
	}
	exact := 0
	for i, d := range w.naks(r.Sequence) {
		want := 100 * time.Millisecond << i
		if !about(d, want) {
			t.Errorf("given back for %v the %d. time, want about %v", d, i+1, want)
		}
		if d == want {
			exact++
		}
	}
	if exact > 1 {
		t.Errorf("%d delays are not jittered", exact)
	}
}

// S7: the delays are capped.
func TestMapDelayIsCapped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const first, most = 2 * time.Millisecond, 10 * time.Millisecond
	var calls atomic.Int64
	w.join(tryMappedBy(w.srv.Conn(), failing(&calls, func(call int64) bool { return call <= 70 }),
		func(s *widgetSource) { s.MapDelays(first, most) }))
	r := w.publish("a")[0]
	w.settled()
	naks := w.naks(r.Sequence)
	if len(naks) != 70 {
		t.Errorf("given back %d times, want 70", len(naks))
	}
	for i, d := range naks {
		if want := min(first<<min(i, 10), most); !about(d, want) {
			t.Errorf("given back for %v the %d. time, want about %v", d, i+1, want)
		}
	}
}

// S7: a panic in the mapper or a filter is a failure like any other.
func TestPanicsOfTheUsersFunctions(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"mapper", "filter"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			lines := w.keepLog()
			var calls atomic.Int64
			panicky := func() {
				if calls.Add(1) <= 3 {
					panic("no such warehouse")
				}
			}
			m := w.join(mappedBy(w.srv.Conn(), func(_ context.Context, e nats.Event[string, widget]) []string {
				if where == "mapper" && e.Key == "a" {
					panicky()
				}
				return []string{e.Key}
			}, func(s *widgetSource) {
				s.MapDelays(10*time.Millisecond, time.Second)
				if where == "filter" {
					s.OnCreate(func(created widget) bool {
						if created.Color == "red" {
							panicky()
						}
						return true
					})
				}
			}))
			r, err := jsource.PublishCreated(t.Context(), w.pub, widgets, "a", widget{Color: "red"})
			if err != nil {
				t.Fatal(err)
			}
			other := w.publish("b")[0]
			w.waitSaid(other.Sequence, "ack of delivery 1")
			w.settled()
			w.expectSaid(r.Sequence, "nak of delivery 1, nak of delivery 2, nak of delivery 3, ack of delivery 4")
			m.expectOnce(t, "a", "b")
			for i, d := range w.naks(r.Sequence) {
				if want := 10 * time.Millisecond << i; !about(d, want) {
					t.Errorf("given back for %v, want about %v", d, want)
				}
			}
			lines.waitFor(t, "mapping an event failed", "panic: no such warehouse", "mapping_test.go")
		})
	}
}

// S7: a mapper that fails because the controller stops gives its message back at once.
func TestMapperCutShortByStopping(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mapping := make(chan struct{})
	m := w.join(tryMappedBy(w.srv.Conn(), func(ctx context.Context, _ nats.Event[string, widget]) ([]string, error) {
		close(mapping)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}, nil))
	r := w.publish("a")[0]
	<-mapping
	m.stop()
	m.wait()
	w.expectSaid(r.Sequence, "nak of delivery 1")
	if d := w.naks(r.Sequence)[0]; d != 0 {
		t.Errorf("given back for %v", d)
	}
}

// S7: what was handed out more than MaxDeliveries times is a dead letter before it is mapped.
func TestMaxDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var calls atomic.Int64
	m := w.join(tryMappedBy(w.srv.Conn(), failing(&calls, func(int64) bool { return true }), func(s *widgetSource) {
		s.MapDelays(time.Millisecond, time.Millisecond).MaxDeliveries(3)
	}))
	r := w.publish("a")[0]
	w.waitSaid(r.Sequence, "nak of delivery 1, nak of delivery 2, nak of delivery 3, term of delivery 4")
	if n := calls.Load(); n != 3 {
		t.Errorf("mapped %d times, want 3", n)
	}
	letter := w.waitLetters(1)[0]
	if string(letter.Data) != `{"kind":"created","key":"a","new":{"version":0}}` {
		t.Errorf("the letter holds %q", letter.Data)
	}
	if why := letter.Header.Get(jsource.DeadReason); why != "deliveries" {
		t.Errorf("its reason is %q", why)
	}
	expectError(t, headerError(letter.Header.Get(jsource.DeadError)), "handed out 4 times, more than MaxDeliveries 3")
	m.expectOnce(t)
}

// The default of MaxDeliveries: what kills each process that touches it ends as a dead letter.
func TestDefaultMaxDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var calls atomic.Int64
	w.join(tryMappedBy(w.srv.Conn(), failing(&calls, func(int64) bool { return true }), func(s *widgetSource) {
		s.MapDelays(time.Millisecond, time.Millisecond)
	}))
	w.publish("a")
	w.waitLetters(1)
	if n := calls.Load(); n != 100 {
		t.Errorf("mapped %d times, want 100", n)
	}
}

// A mapper gets a context that ends with the source, and Drain does not wait for one that heeds it.
func TestDrainEndsTheMappersContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mapping := make(chan struct{})
	e := w.engineOf(func(ctx context.Context, _ nats.Event[string, widget]) ([]string, error) {
		close(mapping)
		<-ctx.Done()
		return nil, errors.New("not now")
	})
	r := w.publish("a")[0]
	<-mapping
	e.drain(t) // the context that Start was given lives on
	w.expectSaid(r.Sequence, "nak of delivery 1")
}
