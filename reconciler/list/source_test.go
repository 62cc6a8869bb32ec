package list_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/list"
)

var _ reconciler.Source[string] = (*list.Source[string])(nil)

var errDown = errors.New("the database is down")

// calls notes when a list function was called, counted from the start of the test.
type calls struct {
	began time.Time
	mu    sync.Mutex
	at    []time.Duration
}

func newCalls() *calls { return &calls{began: time.Now()} }

func (c *calls) note() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, time.Since(c.began))
	return len(c.at)
}

// all is when, once everything that is to happen now has.
func (c *calls) all() []time.Duration {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at)
}

func (c *calls) expect(t *testing.T, want ...time.Duration) {
	t.Helper()
	if got := c.all(); !slices.Equal(got, want) {
		t.Errorf("listed at %v, want %v", got, want)
	}
}

func TestStartPushesTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		out, done := make(chan string), make(chan error, 1)
		src := list.New(func(context.Context) ([]string, error) { return []string{"a", "b", "a"}, nil })
		go func() { done <- src.Start(ctx, out) }()
		for _, want := range []string{"a", "b", "a"} {
			synctest.Wait()
			if len(done) > 0 {
				t.Fatal("Start returned before everything was pushed")
			}
			if got := <-out; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestListsPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c := newCalls()
		src := list.New(func(context.Context) ([]string, error) {
			c.note()
			time.Sleep(time.Second) // how long a list takes
			return []string{"a"}, nil
		}).Every(time.Minute).Jitter(0)
		if err := src.Start(ctx, discard(ctx)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		c.expect(t, 0, 61*time.Second, 122*time.Second)
		stop()
		time.Sleep(time.Hour)
		c.expect(t, 0, 61*time.Second, 122*time.Second)
	})
}

func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c := newCalls()
		src := list.New(func(ctx context.Context) ([]string, error) {
			c.note()
			deadline, ok := ctx.Deadline()
			if got := time.Until(deadline); !ok || got != time.Minute {
				t.Errorf("the timeout is %s", got)
			}
			return nil, nil
		})
		if err := src.Start(ctx, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1000 * time.Minute)
		all, distinct := c.all(), map[time.Duration]bool{}
		for i, at := range all[1:] {
			pause := at - all[i]
			if pause < 10*time.Minute || pause > 11*time.Minute {
				t.Errorf("a pause of %s", pause)
			}
			distinct[pause] = true
		}
		if len(distinct) < 10 {
			t.Errorf("pauses are not random: %v", distinct)
		}
	})
}

func TestEveryZeroListsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCalls()
		src := list.New(func(context.Context) ([]string, error) { c.note(); return nil, nil }).Every(0)
		if err := src.Start(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		c.expect(t, 0)
	})
}

// The longest period there is means never, whatever jitter would make of it.
func TestEveryForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c := newCalls()
		src := list.New(func(context.Context) ([]string, error) { c.note(); return nil, nil }).
			Every(math.MaxInt64).Jitter(1)
		if err := src.Start(ctx, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		c.expect(t, 0)
	})
}

func TestFirstListFails(t *testing.T) {
	log := logged(t)
	for name, c := range map[string]struct {
		list func(context.Context) ([]string, error)
		says string
		is   error
	}{
		"error": {
			func(context.Context) ([]string, error) { return []string{"a"}, errDown }, "listing: the", errDown,
		},
		"panic": {
			func(context.Context) ([]string, error) { panic("oh my") }, "the list function panicked: oh my", nil,
		},
		"panic with an error": {func(context.Context) ([]string, error) { panic(errDown) }, "panicked", errDown},
		"timeout": {
			func(ctx context.Context) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() },
			"longer than its Timeout of 30s", context.DeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := list.New(c.list).Every(time.Minute).Timeout(30*time.Second).Start(t.Context(), nil)
				mustFail(t, err, "list source (every 1m0s)", c.says)
				if c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("%v is not %v", err, c.is)
				}
			})
		})
	}
	if !strings.Contains(log.String(), "source_test.go") {
		t.Errorf("the panic's stack was not logged: %s", log)
	}
}

func TestStartRefuses(t *testing.T) {
	unused := func(context.Context) ([]string, error) { t.Error("listed"); return nil, nil }
	for _, f := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		mustFail(t, list.New(unused).Jitter(f).Start(t.Context(), nil), "Jitter", "from 0 to 1")
	}
	mustFail(t, list.New[string](nil).Every(0).Start(t.Context(), nil), "list source:", "function is nil")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errDown)
	if err := list.New(unused).Start(ctx, nil); !errors.Is(err, errDown) {
		t.Errorf("got %v", err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	for name, fn := range map[string]func(context.Context) ([]string, error){
		"listing": func(ctx context.Context) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() },
		"pushing": func(context.Context) ([]string, error) { return []string{"a"}, nil }, // nobody reads
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, stop)
				err := list.New(fn).Timeout(0).Start(ctx, make(chan string))
				if mustFail(t, err, name); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestFailuresAreRetriedWithBackoff(t *testing.T) {
	log := logged(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c := newCalls()
		src := list.New(func(ctx context.Context) ([]string, error) {
			switch c.note() {
			case 2, 3, 4:
				return nil, errDown
			case 5:
				panic("oh my")
			case 6:
				<-ctx.Done()
				return nil, ctx.Err()
			case 8:
				return nil, errDown
			}
			return []string{"a"}, nil
		}).Every(5 * time.Second).Jitter(0).Timeout(time.Second)
		if err := src.Start(ctx, discard(ctx)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		s := time.Second
		// 5 to the first failure, backoff 1, 2, 4 and then capped at 5, and begun anew after a success.
		c.expect(t, 0, 5*s, 6*s, 8*s, 12*s, 17*s, 23*s, 28*s, 29*s)
	})
	for _, want := range []string{
		"the database is down", "oh my", "lister.go", "Timeout of 1s", "failures=5", "retry_in=4s",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q: %s", want, log)
		}
	}
}

// With jitter, too, no pause after a failure is longer than Every.
func TestBackoffIsCapped(t *testing.T) {
	logged(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c := newCalls()
		src := list.New(func(context.Context) ([]string, error) {
			if c.note() > 1 {
				return nil, errDown
			}
			return nil, nil
		}).Every(time.Minute).Jitter(1)
		if err := src.Start(ctx, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		all := c.all()
		for i, at := range all[2:] {
			if pause := at - all[i+1]; pause < time.Second || pause > time.Minute {
				t.Errorf("pause %d is %s", i, pause)
			}
		}
	})
}

// A push nobody reads holds up the next list; it does not overlap it.
func TestListsWaitForThePush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c := newCalls()
		out := make(chan string, 1) // has room for the first list only
		src := list.New(func(context.Context) ([]string, error) { c.note(); return []string{"a"}, nil }).
			Every(time.Minute).Jitter(0)
		if err := src.Start(ctx, out); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		c.expect(t, 0, time.Minute)
		<-out
		<-out
		time.Sleep(time.Minute)
		c.expect(t, 0, time.Minute, time.Hour+time.Minute)
	})
}

// recovering is an event source that asks for lists when told to.
type recovering chan string

func (r recovering) Start(ctx context.Context, _ chan<- string) error {
	handle, _ := reconciler.FromContext(ctx)
	go func() {
		for {
			select {
			case reason := <-r:
				handle.RequestResync(reason)
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// run runs a controller that watches the sources until stop is called.
func run(t *testing.T, srcs ...reconciler.Source[string]) (stop func()) {
	t.Helper()
	c, err := reconciler.New[string]("test").Watch(srcs...).
		Func(func(context.Context, string) (reconciler.Result, error) { return reconciler.Result{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestListsWhenAsked(t *testing.T) {
	for name, every := range map[string]time.Duration{"periodic": time.Hour, "once": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, ask := newCalls(), make(recovering)
				stop := run(t, ask, list.New(func(context.Context) ([]string, error) {
					c.note()
					return []string{"a"}, nil
				}).Every(every).Jitter(0))
				defer stop()
				time.Sleep(time.Minute)
				c.expect(t, 0)

				for range 100 { // many at once cause one list
					ask <- "reconnected"
				}
				first := time.Minute + 100*time.Millisecond
				time.Sleep(20 * time.Second)
				c.expect(t, 0, first)

				for range 100 { // many in a row cause one every five seconds
					ask <- "reconnected"
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(20 * time.Second)
				again := time.Minute + 20*time.Second + 100*time.Millisecond
				c.expect(t, 0, first, again, again+5*time.Second, again+10*time.Second)
			})
		})
	}
}

// A list that was running when an event source recovered may have read before the events that were
// missed: there is another one.
func TestListsAgainWhenAskedWhileListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ask := newCalls(), make(recovering)
		var running atomic.Int32
		stop := run(t, ask, list.New(func(context.Context) ([]string, error) {
			if running.Add(1) > 1 {
				t.Error("two lists at once")
			}
			defer running.Add(-1)
			if c.note() == 2 {
				ask <- "again"
			}
			time.Sleep(time.Second)
			return nil, nil
		}).Every(time.Minute).Jitter(0))
		defer stop()
		time.Sleep(80 * time.Second)
		c.expect(t, 0, 61*time.Second, 67*time.Second)
	})
}

// An outage has made the pauses long; the recovery of an event source is a hint that it is over.
func TestAskingShortensBackoff(t *testing.T) {
	logged(t)
	synctest.Test(t, func(t *testing.T) {
		c, ask := newCalls(), make(recovering)
		var down atomic.Bool
		stop := run(t, ask, list.New(func(context.Context) ([]string, error) {
			c.note()
			if down.Load() {
				return nil, errDown
			}
			return nil, nil
		}).Every(time.Hour).Jitter(0))
		defer stop()
		synctest.Wait()
		down.Store(true)
		time.Sleep(90 * time.Minute) // the last retry was at 60 min + 1023 s, the next is at 60 min + 2047 s
		n := len(c.all())
		down.Store(false)
		ask <- "reconnected"
		time.Sleep(time.Second)
		if since := len(c.all()) - n; since != 1 {
			t.Errorf("%d lists since, want 1", since)
		}
	})
}

// The engine knows that these requests come from a resync.
func TestRequestsCountAsResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := reconciler.New[string]("test").
			Watch(list.New(func(context.Context) ([]string, error) { return []string{"a", "b"}, nil })).
			Func(func(context.Context, string) (reconciler.Result, error) { return reconciler.Result{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Start(ctx) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if s := c.Stats(); s.Attempts != 2 || s.ResyncOnly != 2 {
			t.Errorf("%d attempts, %d of them by resync; want 2 and 2", s.Attempts, s.ResyncOnly)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
