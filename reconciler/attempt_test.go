package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
)

// at runs a controller for eight hours and returns when attempts began.
func at(t *testing.T, b *reconciler.Builder[string], fn func(attempt int) (result, error)) (began []time.Duration) {
	t.Helper()
	zero := time.Now()
	c := build(t, b, func(context.Context, string) (result, error) {
		began = append(began, time.Since(zero).Truncate(ms))
		return fn(len(began))
	})
	stop := start(t, c)
	pass(8 * time.Hour)
	stopped(t, stop)
	return began
}

func wantTimes(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("attempts began at %v, want %v", got, want)
	}
}

const ms = time.Millisecond

func newBuilder(srcs ...reconciler.Source[string]) *reconciler.Builder[string] {
	return reconciler.New[string]("invoices").Watch(srcs...)
}

func TestAttempt_ErrorIsRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := at(t, newBuilder(events("a")), func(attempt int) (result, error) {
			if attempt < 5 {
				return result{}, errBroken
			}
			return result{}, nil
		})
		wantTimes(t, began, 0, 5*ms, 15*ms, 35*ms, 75*ms)
	})
}

func TestAttempt_BackoffStartsOverAfterASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := at(t, newBuilder(events("a")), func(attempt int) (result, error) {
			if attempt == 4 {
				return result{RequeueAfter: time.Hour}, nil
			}
			if attempt == 6 {
				return result{}, nil
			}
			return result{}, errBroken
		})
		wantTimes(t, began, 0, 5*ms, 15*ms, 35*ms, time.Hour+35*ms, time.Hour+40*ms)
	})
}

func TestAttempt_BackoffIsPerRequestAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zero := time.Now()
		var last, gap time.Duration
		attempts := 0
		c := build(t, newBuilder(events("fails", "works")), func(_ context.Context, req string) (result, error) {
			if req == "works" {
				return result{}, nil
			}
			attempts++
			gap, last = time.Since(zero)-last, time.Since(zero)
			return result{}, errBroken
		})
		stop := start(t, c)
		pass(3 * time.Hour)
		stopped(t, stop)
		equal(t, "the longest backoff", gap, 5*time.Minute)
	})
}

func TestAttempt_RateLimiterOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := workqueue.NewTypedItemFastSlowRateLimiter[string](time.Second, time.Minute, 2)
		began := at(t, newBuilder(events("a")).RateLimiter(limiter), func(attempt int) (result, error) {
			if attempt < 5 {
				return result{}, errBroken
			}
			return result{}, nil
		})
		wantTimes(t, began, 0, time.Second, 2*time.Second, 62*time.Second, 122*time.Second)
		equal(t, "failures that it remembers", limiter.NumRequeues("a"), 0)
	})
}

func TestAttempt_RequeueAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := at(t, newBuilder(events("a")), func(attempt int) (result, error) {
			if attempt < 4 {
				return result{RequeueAfter: time.Duration(attempt) * time.Hour}, nil
			}
			return result{}, nil
		})
		wantTimes(t, began, 0, time.Hour, 3*time.Hour, 6*time.Hour)
	})
}

// S6: Unfinished keeps the message owed, and runs again after RequeueAfter or, without it, with backoff.
func TestS6_UnfinishedStaysOwedAndRunsAgain(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  []time.Duration
	}{
		{0, []time.Duration{0, 5 * ms, 15 * ms, 35 * ms}},
		{time.Hour, []time.Duration{0, time.Hour, 2 * time.Hour, 3 * time.Hour}},
	} {
		t.Run(fmt.Sprintf("RequeueAfter %v", c.after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := newTracked(queue.GroupOptions{})
				m := src.later("a")
				began := at(t, newBuilder(src), func(attempt int) (result, error) {
					equal(t, "verdict", m.verdict(), [2]int{0, 0})
					if attempt == 4 {
						return result{}, nil
					}
					return result{Unfinished: true, RequeueAfter: c.after}, nil
				})
				wantTimes(t, began, c.want...)
				equal(t, "verdict", m.verdict(), [2]int{1, 0})
			})
		})
	}
}

func TestS6_RequeueAfterSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newTracked(queue.GroupOptions{})
		c := build(t, newBuilder(src), func(context.Context, string) (result, error) {
			return result{RequeueAfter: time.Hour}, nil
		})
		stop := start(t, c)
		m := src.send("a")
		synctest.Wait()
		equal(t, "verdict", m.verdict(), [2]int{1, 0})
		stopped(t, stop)
	})
}

// Case 29.
func TestS6_OutcomePolicyMayKeepRequeueAfterOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newTracked(queue.GroupOptions{})
		policy := func(res result, err error) queue.Outcome {
			if err == nil && res.RequeueAfter > 0 {
				return queue.Unfinished
			}
			return queue.DefaultPolicy(res, err)
		}
		m := src.later("a")
		began := at(t, newBuilder(src).Outcome(policy), func(attempt int) (result, error) {
			equal(t, "verdict", m.verdict(), [2]int{0, 0})
			if attempt < 3 {
				return result{RequeueAfter: time.Hour}, nil
			}
			return result{}, nil
		})
		wantTimes(t, began, 0, time.Hour, 2*time.Hour)
		equal(t, "verdict", m.verdict(), [2]int{1, 0})
	})
}

func TestS6_TerminalErrorIsNotRetriedUntilAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newTracked(queue.GroupOptions{})
		attempts := 0
		c := build(t, newBuilder(src), func(context.Context, string) (result, error) {
			attempts++
			if attempts == 1 {
				return result{}, fmt.Errorf("wrapped: %w", reconciler.TerminalError(errBroken))
			}
			return result{}, nil
		})
		stop := start(t, c)
		first := src.send("a")
		pass(8 * time.Hour)
		equal(t, "attempts", attempts, 1)
		equal(t, "verdict", first.verdict(), [2]int{1, 1})
		second := src.send("a")
		synctest.Wait()
		equal(t, "attempts", attempts, 2)
		equal(t, "verdict", second.verdict(), [2]int{1, 0})
		stopped(t, stop)
		equal(t, "terminal nil", reconciler.TerminalError(nil), nil)
	})
}

// When the only messages that asked for it have given up, there is nobody left to retry for.
func TestS6_MaxAttemptsEndsTheRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour)
		src := newTracked(queue.GroupOptions{MaxAttempts: 3})
		m := src.later("a")
		began := at(t, newBuilder(src).RateLimiter(limiter), func(int) (result, error) {
			return result{}, errBroken
		})
		wantTimes(t, began, 0, time.Second, 3*time.Second)
		equal(t, "verdict", m.verdict(), [2]int{1, 1})
		equal(t, "failures that the limiter remembers", limiter.NumRequeues("a"), 0)
	})
}

// Unfinished work is asked for by its message, not by anybody else.
func TestS6_MaxAttemptsEndsTheRetriesOfUnfinishedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newTracked(queue.GroupOptions{MaxAttempts: 2})
		m := src.later("a")
		began := at(t, newBuilder(src), func(attempt int) (result, error) {
			if attempt == 1 {
				return result{Unfinished: true, RequeueAfter: time.Hour}, nil
			}
			return result{}, errBroken
		})
		wantTimes(t, began, 0, time.Hour, time.Hour+5*ms)
		equal(t, "verdict", m.verdict(), [2]int{1, 1})
	})
}

// The push of a message that an earlier attempt has settled already causes one more attempt. It is no
// dead letter when that fails, and what it left undone is to be retried.
func TestAttempt_FailureOfWhatIsSettledAlreadyIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settled := sourceFunc(func(ctx context.Context, out chan<- string) error {
			reconciler.TrackerFrom[string](ctx)
			return events("a")(ctx, out)
		})
		began := at(t, newBuilder(settled), func(attempt int) (result, error) {
			if attempt < 3 {
				return result{}, errBroken
			}
			return result{}, nil
		})
		wantTimes(t, began, 0, 5*ms, 15*ms)
	})
}

// Another source asked for it too, which has not given up.
func TestS6_MaxAttemptsEndsNoOtherSourcesRetries(t *testing.T) {
	for name, src := range map[string]reconciler.Source[string]{"event": events("a"), "resync": resyncs("a")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &message{owes: []string{"a"}}
				b := newBuilder(owed(queue.GroupOptions{MaxAttempts: 1}, m), src)
				began := at(t, b, func(attempt int) (result, error) {
					if attempt < 3 {
						return result{}, errBroken
					}
					return result{}, nil
				})
				wantTimes(t, began, 0, 5*ms, 15*ms)
				equal(t, "verdict", m.verdict(), [2]int{1, 1})
			})
		})
	}
}

// A request that a message asked for polls: its message is settled, and a poll that fails is retried as
// ever. Else the polling would end with the first failure.
func TestAttempt_FailingPollOfASettledMessageIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newTracked(queue.GroupOptions{MaxAttempts: 1})
		m := src.later("a")
		began := at(t, newBuilder(src), func(attempt int) (result, error) {
			switch attempt {
			case 1:
				return result{RequeueAfter: time.Hour}, nil
			case 2, 3:
				return result{}, errBroken
			default:
				return result{}, nil
			}
		})
		wantTimes(t, began, 0, time.Hour, time.Hour+5*ms, time.Hour+15*ms)
		equal(t, "verdict", m.verdict(), [2]int{1, 0})
	})
}

func TestAttempt_PanicIsAnErrorWithItsStackInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logs
		src := newTracked(queue.GroupOptions{})
		m := src.later("a")
		attempts := 0
		c := build(t, newBuilder(src).Logger(l.logger()), func(context.Context, string) (result, error) {
			if attempts++; attempts < 3 {
				panicsDeepInside()
			}
			return result{}, nil
		})
		stop := start(t, c)
		pass(time.Hour)
		equal(t, "attempts", attempts, 3)
		equal(t, "verdict", m.verdict(), [2]int{1, 0})
		equal(t, "stats", c.Stats(), reconciler.Stats{Attempts: 3, Failed: 2, Panics: 2})
		failed := l.with(t, "reconcile failed: to be retried")
		equal(t, "lines", len(failed), 2)
		for _, line := range failed {
			for _, want := range []string{"panic: ouch", "panicsDeepInside", "attempt_test.go"} {
				if !strings.Contains(fmt.Sprint(line["error"]), want) {
					t.Errorf("%q is missing in the error of %v", want, line)
				}
			}
		}
		stopped(t, stop)
	})
}

func panicsDeepInside() { panic("ouch") }

// t.FailNow, say, ends the goroutine it is called on. That must not cost the controller a worker, nor the
// request its next attempt.
func TestAttempt_GoexitIsAFailureAndCostsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logs
		attempts := map[string]int{}
		c := build(t, newBuilder(events("a", "b")).Logger(l.logger()),
			func(_ context.Context, req string) (result, error) {
				if attempts[req]++; attempts[req] < 3 {
					runtime.Goexit()
				}
				return result{}, nil
			})
		stop := start(t, c)
		pass(time.Hour)
		equal(t, "attempts", fmt.Sprint(attempts), "map[a:3 b:3]")
		equal(t, "stats", c.Stats(), reconciler.Stats{Attempts: 6, Failed: 4})
		equal(t, "lines", len(l.with(t, "reconcile failed: to be retried")), 4)
		stopped(t, stop)
	})
}

func TestAttempt_TimeoutCutsTheContextAndCountsAsFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newTracked(queue.GroupOptions{MaxAttempts: 2})
		zero := time.Now()
		var began, ended []time.Duration
		c := build(t, newBuilder(src).Timeout(time.Second), func(ctx context.Context, _ string) (result, error) {
			began = append(began, time.Since(zero).Truncate(ms))
			<-ctx.Done()
			ended = append(ended, time.Since(zero))
			return result{}, ctx.Err()
		})
		stop := start(t, c)
		m := src.send("a")
		pass(time.Hour)
		wantTimes(t, began, 0, time.Second+5*ms)
		wantTimes(t, ended, time.Second, 2*time.Second+5*ms)
		equal(t, "verdict", m.verdict(), [2]int{1, 1})
		stopped(t, stop)
	})
}

// Only stopping cuts an attempt short; what panics after its time is up has failed.
func TestAttempt_PanicAfterTheTimeoutIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		c := build(t, newBuilder(events("a")).Timeout(time.Second),
			func(ctx context.Context, _ string) (result, error) {
				if attempts++; attempts == 1 {
					<-ctx.Done()
					panic("ouch")
				}
				return result{}, nil
			})
		stop := start(t, c)
		pass(time.Minute)
		stopped(t, stop)
		equal(t, "stats", c.Stats(), reconciler.Stats{Attempts: 2, Failed: 1, Panics: 1})
	})
}

func TestEngine_NoRequestIsOnTwoWorkersAndManyAreOnMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		on := map[string]int{}
		attempts, most := 0, 0
		src := make(feed)
		c := build(t, newBuilder(src).Workers(4), func(_ context.Context, req string) (result, error) {
			mu.Lock()
			on[req]++
			attempts++
			equal(t, "workers on "+req, on[req], 1)
			n := 0
			for _, is := range on {
				n += is
			}
			most = max(most, n)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			on[req]--
			mu.Unlock()
			return result{}, nil
		})
		stop := start(t, c)
		for range 10 {
			for _, req := range []string{"a", "b", "c", "a", "b", "d", "e", "a"} {
				src <- req
			}
			time.Sleep(100 * time.Millisecond)
		}
		pass(time.Minute)
		equal(t, "workers at once", most, 4)
		// All were pushed within the first second. Four were on the workers meanwhile, and ran once more
		// for all that came; the fifth had to wait.
		equal(t, "attempts", attempts, 9)
		stopped(t, stop)
	})
}

func TestAttempt_PolicyThatCallsItAFailureWithoutAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logs
		attempts := 0
		policy := func(res result, err error) queue.Outcome {
			if attempts < 2 {
				return queue.Failed
			}
			return queue.DefaultPolicy(res, err)
		}
		c := build(t, newBuilder(events("a")).Outcome(policy).Logger(l.logger()),
			func(context.Context, string) (result, error) {
				attempts++
				return result{}, nil
			})
		stop := start(t, c)
		pass(time.Minute)
		equal(t, "attempts", attempts, 2)
		lines := l.with(t, "reconcile failed: to be retried")
		equal(t, "lines", len(lines), 1)
		equal(t, "error", fmt.Sprint(lines[0]["error"]), "the outcome policy calls it a failure")
		stopped(t, stop)
	})
}

// Case 26: the limiter remembers nothing of a request once its outcome is final.
func TestAttempt_EveryFinalOutcomeIsForgottenByTheLimiter(t *testing.T) {
	for name, last := range map[string]func() (result, error){
		"success":      func() (result, error) { return result{}, nil },
		"RequeueAfter": func() (result, error) { return result{RequeueAfter: 48 * time.Hour}, nil },
		"Unfinished, RequeueAfter": func() (result, error) {
			return result{Unfinished: true, RequeueAfter: 48 * time.Hour}, nil
		},
		"TerminalError": func() (result, error) { return result{}, reconciler.TerminalError(errors.New("no use")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour)
				at(t, newBuilder(events("a")).RateLimiter(limiter), func(attempt int) (result, error) {
					equal(t, "failures that the limiter remembers", limiter.NumRequeues("a"), attempt-1)
					if attempt <= 3 {
						return result{}, errBroken
					}
					return last()
				})
				equal(t, "failures that the limiter remembers", limiter.NumRequeues("a"), 0)
			})
		})
	}
}
