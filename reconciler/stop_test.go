package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
)

func TestStop_RunningAttemptsFinishAndNoOtherBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		c := build(t, newBuilder(events("a", "b", "c")), func(ctx context.Context, req string) (result, error) {
			happened.add("%s begins", req)
			time.Sleep(10 * time.Second)
			happened.add("%s ends, %v", req, ctx.Err())
			return result{RequeueAfter: time.Millisecond}, nil
		})
		stop := start(t, c)
		pass(time.Second)
		began := time.Now()
		stopped(t, stop)
		equal(t, "stopping took", time.Since(began).Round(ms), 9*time.Second)
		happened.expect(t, "a begins", "a ends, <nil>")
	})
}

func TestStop_AfterTheGracePeriodAttemptsAreCancelledAndCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newTracked(queue.GroupOptions{MaxAttempts: 1})
		var l logs
		c := build(t, newBuilder(src).Grace(time.Minute).Logger(l.logger()),
			func(ctx context.Context, _ string) (result, error) {
				<-ctx.Done()
				return result{Changed: true}, ctx.Err()
			})
		stop := start(t, c)
		m := src.send("a")
		synctest.Wait()
		began := time.Now()
		stopped(t, stop)
		equal(t, "stopping took", time.Since(began), time.Minute)
		equal(t, "verdict", m.verdict(), [2]int{0, 0}) // neither settled nor a failure that counts
		lines := l.with(t, "attempt cut short by stopping")
		equal(t, "lines", len(lines), 1)
		equal(t, "request", lines[0]["request"], any("a"))
		equal(t, "stats", c.Stats(), reconciler.Stats{Attempts: 1, Owed: 1})
	})
}

func TestStop_WithoutGraceAttemptsAreCancelledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := build(t, newBuilder(events("a")).Grace(0), func(ctx context.Context, _ string) (result, error) {
			<-ctx.Done()
			return result{}, ctx.Err()
		})
		stop := start(t, c)
		pass(time.Second)
		began := time.Now()
		stopped(t, stop)
		equal(t, "stopping took", time.Since(began), 0)
	})
}

// A panic of an attempt that was cancelled is cut short like any other.
func TestStop_PanicOfACancelledAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l logs
		src := newTracked(queue.GroupOptions{MaxAttempts: 1})
		c := build(t, newBuilder(src).Grace(0).Logger(l.logger()),
			func(ctx context.Context, _ string) (result, error) {
				<-ctx.Done()
				panic("ouch")
			})
		stop := start(t, c)
		m := src.send("a")
		synctest.Wait()
		stopped(t, stop)
		equal(t, "verdict", m.verdict(), [2]int{0, 0})
		equal(t, "lines", len(l.with(t, "attempt cut short by stopping")), 1)
	})
}

func TestStop_HungAttemptIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		c := build(t, newBuilder(events("a", "b", "c")).Workers(2).Grace(10*time.Second),
			func(context.Context, string) (result, error) {
				<-hung
				return result{}, nil
			})
		stop := start(t, c)
		pass(time.Second)
		began := time.Now()
		err := stop()
		equal(t, "stopping took", time.Since(began), 15*time.Second)
		equal(t, "error", fmt.Sprint(err), `controller "invoices": 2 attempts still run 5s after their context `+
			`was cancelled; does Reconcile look at its context?`)
		close(hung)
	})
}

func TestStop_SourcesHaveTheGracePeriodAndTheirErrorsAreStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopping := func(do func(ctx context.Context) error) sourceFunc {
			return func(ctx context.Context, _ chan<- string) error {
				h, _ := reconciler.FromContext(ctx)
				h.OnStop(do)
				return nil
			}
		}
		slow := stopping(func(ctx context.Context) error {
			<-ctx.Done()
			return fmt.Errorf("giving back: %w", ctx.Err())
		})
		broken := stopping(func(context.Context) error { return errBroken })
		fine := stopping(func(context.Context) error { return nil })
		stop := start(t, build(t, newBuilder(slow, fine, broken).Grace(time.Minute), nothing))
		synctest.Wait()
		began := time.Now()
		err := stop()
		equal(t, "stopping took", time.Since(began), time.Minute)
		for _, want := range []error{errBroken, context.DeadlineExceeded} {
			if !errors.Is(err, want) {
				t.Errorf("%v is missing in %v", want, err)
			}
		}
		if !strings.Contains(fmt.Sprint(err), "source 3") {
			t.Errorf("the source is not named in %v", err)
		}
	})
}

// Case 23: a queue that shuts down forgets what is queued and what is delayed. Nothing of that is settled.
func TestStop_WhatWasNotReconciledIsNotSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		src := newTracked(queue.GroupOptions{})
		c := build(t, newBuilder(src), func(_ context.Context, req string) (result, error) {
			happened.add("%s", req)
			if req == "delayed" {
				return result{Unfinished: true, RequeueAfter: time.Hour}, nil
			}
			if req == "fails" {
				return result{}, errBroken
			}
			time.Sleep(10 * time.Second)
			return result{}, nil
		})
		stop := start(t, c)
		owes := [][]string{{"delayed"}, {"fails"}, {"a"}, {"b"}, {"c"}, {"a", "b"}}
		var messages []*message
		for _, reqs := range owes {
			messages = append(messages, src.send(reqs...))
		}
		pass(time.Second) // a is being reconciled; b, c and fails are queued
		stopped(t, stop)
		happened.expect(t, "delayed", "fails", "a")
		settled := map[int]int{2: 1} // a, for the message that was there when it began
		for i, m := range messages {
			equal(t, fmt.Sprint("verdict of the message that owes ", owes[i]), m.verdict(), [2]int{settled[i], 0})
		}
	})
}
