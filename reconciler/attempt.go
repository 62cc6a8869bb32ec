package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/levelstream/jsource/queue"
)

// errExited is the error of an attempt whose Reconciler called runtime.Goexit.
var errExited = errors.New("Reconcile ended its goroutine")

// work is one worker: it runs attempts until the controller stops.
func (c *Controller[request]) work(ctx, attempts context.Context, workers *sync.WaitGroup) {
	ended := false
	defer func() {
		if !ended {
			// The Reconciler ended the worker's goroutine. Another one takes its place.
			workers.Go(func() { c.work(ctx, attempts, workers) })
		}
	}()
	for {
		req, cause, ok := c.queue.Get()
		if !ok {
			ended = true
			return
		}
		c.workOn(ctx, attempts, req, cause)
	}
}

func (c *Controller[request]) workOn(ctx, attempts context.Context, req request, cause queue.Cause) {
	defer c.queue.Done(req)
	if ctx.Err() == nil {
		c.attempt(attempts, req, cause)
	}
}

// attempt runs the Reconciler once on req and queues what is to follow.
func (c *Controller[request]) attempt(ctx context.Context, req request, cause queue.Cause) {
	a := c.tracker.Begin(req)
	actx := &attemptContext[request]{
		Context: ctx, controller: c, req: req, cause: cause,
		number: max(a.Number(), c.queue.Retries(req)+1),
	}
	if c.timeout > 0 {
		var cancel context.CancelFunc
		actx.Context, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	var (
		res     Result
		outcome queue.Outcome
		err     error
		exited  = true
	)
	c.stats.running.Add(1)
	defer func() {
		if exited {
			outcome, err = failure(actx), errExited
		}
		c.stats.running.Add(-1)
		c.stats.count(cause, a.Owed(), res, outcome)
		c.follow(actx, a.Owed(), res, outcome, err)
	}()
	res, outcome, err = c.run(actx, a)
	exited = false
}

// follow queues what is to follow an attempt that covered so many messages.
func (c *Controller[request]) follow(
	a *attemptContext[request], owed int, res Result, outcome queue.Outcome, err error,
) {
	switch outcome {
	case queue.Success:
		c.queue.Forget(a.req)
		if res.RequeueAfter > 0 {
			c.queue.RetryAfter(a.req, res.RequeueAfter)
		}
	case queue.Unfinished:
		if res.RequeueAfter > 0 {
			c.queue.Forget(a.req)
			c.queue.RetryAfter(a.req, res.RequeueAfter)
		} else {
			c.queue.Retry(a.req)
		}
	case queue.Dead:
		c.queue.Forget(a.req)
		a.Logger().Error("reconcile failed for good: not retried until something asks for it again",
			"error", err)
	case queue.Cut:
		a.Logger().Info("attempt cut short by stopping", "error", err)
	default:
		if a.cause&^(queue.Owed|queue.Requeue) == 0 && owed > 0 && !c.tracker.Owes(a.req) {
			// Only messages asked for it, and each of them gave up: a dead letter.
			c.queue.Forget(a.req)
			a.Logger().Error("reconcile failed, and no message owes the request any more: not retried",
				"error", err)
			return
		}
		c.queue.Retry(a.req)
		a.Logger().Error("reconcile failed: to be retried", "error", err)
	}
}

// run runs the Reconciler as the attempt a. A panic becomes an error.
func (c *Controller[request]) run(ctx context.Context, a queue.Attempt[request]) (
	res Result, o queue.Outcome, err error,
) {
	defer func() {
		if p := recover(); p != nil {
			c.stats.panics.Add(1)
			o, err = failure(ctx), &panicError{value: p, stack: debug.Stack()}
		}
	}()
	res, o, err = queue.Run(ctx, a, c.policy, c.reconciler.Reconcile)
	if err == nil && (o == queue.Failed || o == queue.Dead) {
		err = errPolicy
	}
	return res, o, err
}

// failure is the outcome of an attempt that did not return, as [queue.Run] sees it.
func failure(ctx context.Context) queue.Outcome {
	if errors.Is(ctx.Err(), context.Canceled) {
		return queue.Cut
	}
	return queue.Failed
}

// panicError is a panic of the Reconciler.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// LogValue adds the stack to what is logged.
func (e *panicError) LogValue() slog.Value {
	return slog.StringValue(e.Error() + "\n" + string(e.stack))
}

// attemptContext is the context of an attempt. It makes a logger only if one is asked for.
type attemptContext[request comparable] struct {
	context.Context
	controller *Controller[request]
	req        request
	cause      queue.Cause
	number     int
}

type loggerKey struct{}

// Value returns the attempt itself to LoggerFrom.
func (a *attemptContext[request]) Value(key any) any {
	if key == (loggerKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// Logger is the attempt's logger.
func (a *attemptContext[request]) Logger() *slog.Logger {
	return a.controller.logger.With("request", a.req, "attempt", a.number, "cause", a.cause.String())
}

// LoggerFrom returns a logger that carries controller, request and attempt, for use inside Reconcile;
// elsewhere it returns slog.Default().
func LoggerFrom(ctx context.Context) *slog.Logger {
	if a, ok := ctx.Value(loggerKey{}).(interface{ Logger() *slog.Logger }); ok {
		return a.Logger()
	}
	return slog.Default()
}
