package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/levelstream/jsource/queue"
)

// work is one worker: it runs attempts until the controller stops.
func (c *Controller[request]) work(ctx, attempts context.Context) {
	for {
		req, cause, ok := c.queue.Get()
		if !ok {
			return
		}
		if ctx.Err() == nil {
			c.attempt(attempts, req, cause)
		}
		c.queue.Done(req)
	}
}

// attempt runs the Reconciler once on req and queues what is to follow.
func (c *Controller[request]) attempt(ctx context.Context, req request, cause queue.Cause) {
	a := c.tracker.Begin(req)
	actx := &attemptContext[request]{Context: ctx, controller: c, req: req, cause: cause, number: a.Number()}
	if c.timeout > 0 {
		var cancel context.CancelFunc
		actx.Context, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	c.stats.running.Add(1)
	res, outcome, err := c.run(actx, a)
	c.stats.running.Add(-1)
	c.stats.count(cause, a.Owed(), res, outcome)

	switch outcome {
	case queue.Success:
		c.queue.Forget(req)
		if res.RequeueAfter > 0 {
			c.queue.RetryAfter(req, res.RequeueAfter)
		}
	case queue.Unfinished:
		if res.RequeueAfter > 0 {
			c.queue.Forget(req)
			c.queue.RetryAfter(req, res.RequeueAfter)
		} else {
			c.queue.Retry(req)
		}
	case queue.Dead:
		c.queue.Forget(req)
		actx.Logger().Error("reconcile failed for good: not retried until something asks for it again", "error", err)
	case queue.Cut:
		actx.Logger().Info("attempt cut short by stopping", "error", err)
	default:
		if cause == queue.Owed && !c.tracker.Owes(req) {
			// Only messages asked for it, and each of them gave up: a dead letter.
			c.queue.Forget(req)
			actx.Logger().Error("reconcile failed, and no message owes the request any more: not retried", "error", err)
			return
		}
		c.queue.Retry(req)
		actx.Logger().Error("reconcile failed: to be retried", "error", err)
	}
}

// run runs the Reconciler as the attempt a. A panic becomes an error.
func (c *Controller[request]) run(ctx context.Context, a queue.Attempt[request]) (res Result, o queue.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.stats.panics.Add(1)
			o, err = queue.Failed, &panicError{value: p, stack: debug.Stack()}
		}
	}()
	res, o, err = queue.Run(ctx, a, c.policy, c.reconciler.Reconcile)
	if err == nil && o == queue.Failed {
		err = fmt.Errorf("the outcome policy calls it a failure")
	}
	return res, o, err
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
