package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/levelstream/jsource/queue"
)

type (
	ctx     = context.Context
	polling struct{ after time.Duration } // a result of one's own
	keeping struct{ keep bool }
)

func (k *keeping) KeepOwed() bool { return k.keep }

// run runs fn as one attempt on "a", which a message owes, and says what the outcome was.
func run[result any](
	t *testing.T, c ctx, o queue.GroupOptions, fn func(ctx, string) (result, error),
) (*msg, result, error) {
	t.Helper()
	tracker, g := newGroup(o)
	m := register(g, "m", "a")
	res, err := queue.Wrap(tracker, fn)(c, "a")
	equal(t, "an attempt is still running", g.Holding(1) != nil && g.Holding(1)[0].Running, false)
	return m, res, err
}

func TestS6_WrapSettlesOnNilError(t *testing.T) {
	m, res, err := run(t, t.Context(), queue.GroupOptions{}, func(ctx, string) (int, error) { return 7, nil })
	m.expect(t, "settled")
	equal(t, "result", res, 7)
	equal(t, "error", err, nil)
}

// S6: RequeueAfter only schedules.
func TestS6_WrapSettlesOnRequeueAfter(t *testing.T) {
	m, _, _ := run(t, t.Context(), queue.GroupOptions{}, func(ctx, string) (polling, error) {
		return polling{after: time.Hour}, nil
	})
	m.expect(t, "settled")
}

func TestS6_WrapKeepsOwedOnError(t *testing.T) {
	m, _, err := run(t, t.Context(), queue.GroupOptions{MaxAttempts: 1}, func(ctx, string) (int, error) {
		return 0, errBroken
	})
	equal(t, "error", err, errBroken)
	m.expect(t, died("a", errBroken, 1, false)) // it counted
}

func TestS6_WrapKeepsOwedWhenTheResultSaysSo(t *testing.T) {
	for _, keep := range []bool{true, false} {
		m, _, _ := run(t, t.Context(), queue.GroupOptions{MaxAttempts: 1}, func(ctx, string) (*keeping, error) {
			return &keeping{keep: keep}, nil
		})
		if keep {
			m.expect(t)
		} else {
			m.expect(t, "settled")
		}
	}
}

func TestS6_WrapBuriesOnTerminalError(t *testing.T) {
	err := fmt.Errorf("wrapped: %w", queue.Terminal(errBroken))
	m, _, got := run(t, t.Context(), queue.GroupOptions{}, func(ctx, string) (int, error) { return 0, err })
	equal(t, "error", got, err)
	m.expect(t, died("a", err, 1, true))
	equal(t, "the cause is still seen", errors.Is(err, errBroken), true)
	equal(t, "terminal nil", queue.Terminal(nil), nil)
	equal(t, "terminal", queue.IsTerminal(errBroken), false)
}

func TestS6_WrapDoesNotCountWhatStoppingCutShort(t *testing.T) {
	c, cancel := context.WithCancel(t.Context())
	m, _, err := run(t, c, queue.GroupOptions{MaxAttempts: 1}, func(c ctx, _ string) (int, error) {
		cancel()
		return 0, c.Err()
	})
	equal(t, "error", err, context.Canceled)
	m.expect(t)
}

// A success is a success, even when it came as the controller stopped.
func TestS6_WrapSettlesASuccessAfterCancellation(t *testing.T) {
	c, cancel := context.WithCancel(t.Context())
	m, _, _ := run(t, c, queue.GroupOptions{}, func(ctx, string) (int, error) {
		cancel()
		return 0, nil
	})
	m.expect(t, "settled")
}

func TestS6_WrapCountsATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m, _, err := run(t, c, queue.GroupOptions{MaxAttempts: 1}, func(c ctx, _ string) (int, error) {
			<-c.Done()
			return 0, c.Err()
		})
		m.expect(t, died("a", err, 1, false))
	})
}

// A context of the reconciler's own that ended is not the controller stopping.
func TestS6_WrapCountsACancellationOfTheReconcilersOwn(t *testing.T) {
	m, _, _ := run(t, t.Context(), queue.GroupOptions{MaxAttempts: 1}, func(ctx, string) (int, error) {
		return 0, context.Canceled
	})
	m.expect(t, died("a", context.Canceled, 1, false))
}

func TestS6_WrapLetsAPanicGoOnWithItsValue(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{MaxAttempts: 1})
	m := register(g, "m", "a")
	func() {
		defer func() { equal(t, "recovered", recover(), any(errBroken)) }()
		_, _ = queue.Wrap(tracker, func(ctx, string) (int, error) { panic(errBroken) })(t.Context(), "a")
	}()
	m.expect(t, died("a", errors.New("panic: broken"), 1, false))
}

func TestS6_WrapCountsGoexitAsFailed(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{MaxAttempts: 1})
	m := register(g, "m", "a")
	wrapped := queue.Wrap(tracker, exits)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = wrapped(t.Context(), "a")
		t.Error("Goexit did not go on")
	})
	wg.Wait()
	m.expect(t, died("a", errors.New("the reconcile function ended its goroutine"), 1, false))
}

// Case 29: the reconciler's own rate limiter returns "requeue after" with a nil error without having
// reconciled anything.
func TestS6_PolicyMayKeepRequeueAfterOwed(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{MaxAttempts: 1})
	m := register(g, "m", "a")
	policy := func(res polling, err error) queue.Outcome {
		if err == nil && res.after > 0 {
			return queue.Unfinished
		}
		return queue.DefaultPolicy(res, err)
	}
	limited := true
	wrapped := queue.WrapPolicy(tracker, policy, func(ctx, string) (polling, error) {
		if limited {
			return polling{after: time.Minute}, nil
		}
		return polling{}, nil
	})
	for range 5 {
		res, err := wrapped(t.Context(), "a")
		equal(t, "result", res, polling{after: time.Minute})
		equal(t, "error", err, nil)
		m.expect(t)
	}
	limited = false
	_, _ = wrapped(t.Context(), "a")
	m.expect(t, "settled")
}

// A policy is the user's code: when it panics the attempt has failed, not stayed open for ever.
func TestS6_PanicOfThePolicyIsAFailedAttempt(t *testing.T) {
	tracker, g := newGroup(queue.GroupOptions{MaxAttempts: 1})
	m := register(g, "m", "a")
	wrapped := queue.WrapPolicy(tracker, func(int, error) queue.Outcome { panic("policy") },
		func(ctx, string) (int, error) { return 0, nil })
	func() {
		defer func() { equal(t, "recovered", recover(), any("policy")) }()
		_, _ = wrapped(t.Context(), "a")
	}()
	m.expect(t, died("a", errors.New("panic: policy"), 1, false))
}

func TestObserver_SeesEveryAttemptBeforeItSettles(t *testing.T) {
	type key struct{}
	tracker, g := newGroup(queue.GroupOptions{})
	m := register(g, "m", "a")
	var seen []string
	tracker.SetObserver(func(c ctx, a *queue.Attempt[string]) (ctx, func(queue.Outcome, error)) {
		seen = append(seen, fmt.Sprintf("%s begins, %d owed", a.Request(), a.Owed()))
		return context.WithValue(c, key{}, "of the observer"), func(o queue.Outcome, err error) {
			m.expect(t)
			seen = append(seen, fmt.Sprintf("%v: %v", o, err))
		}
	})
	wrapped := queue.Wrap(tracker, func(c ctx, _ string) (int, error) {
		seen = append(seen, fmt.Sprint(c.Value(key{})))
		return 0, nil
	})
	_, _ = wrapped(t.Context(), "a")
	m.expect(t, "settled")
	equal(t, "seen", fmt.Sprint(seen), "[a begins, 1 owed of the observer success: <nil>]")

	tracker.SetObserver(func(c ctx, _ *queue.Attempt[string]) (ctx, func(queue.Outcome, error)) { return c, nil })
	_, _ = wrapped(t.Context(), "a")
}
