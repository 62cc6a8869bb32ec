package list

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// lister is a Source that was started.
type lister[request any] struct {
	*Source[request]
	out    chan<- request
	logger *slog.Logger
	asked  chan string // holds the reason when a list was asked for since the last one began
}

// ask causes a list soon. It does not block, and asking again before that list begins changes nothing.
func (l *lister[request]) ask(reason string) {
	select {
	case l.asked <- reason:
	default:
	}
}

// run lists again and again until ctx ends.
func (l *lister[request]) run(ctx context.Context) {
	p := newPace(l.every, l.jitter)
	for {
		reason, ok := l.wait(ctx, p)
		if !ok {
			return
		}
		select {
		case <-l.asked: // whoever asked until here is served by this list
		default:
		}
		l.logger.DebugContext(ctx, "listing", "reason", reason)
		switch err := l.round(ctx); {
		case ctx.Err() != nil:
			return
		case err == nil:
			p.succeeded()
		default:
			p.failed()
			l.report(ctx, err, p)
		}
	}
}

// wait returns why the next list is due, when it is; false when ctx ended.
func (l *lister[request]) wait(ctx context.Context, p *pace) (reason string, ok bool) {
	var due <-chan time.Time // stays nil, which is never, when nothing is planned
	if d, planned := p.next(); planned {
		due = time.After(d)
	}
	select {
	case <-ctx.Done():
		return "", false
	case <-due:
		return "the period", true
	case reason = <-l.asked:
	}
	select {
	case <-ctx.Done():
		return "", false
	case <-time.After(p.soon()):
		return reason, true
	}
}

// round lists once and pushes what was listed.
func (l *lister[request]) round(ctx context.Context) error {
	reqs, err := l.listOnce(ctx)
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	for _, req := range reqs {
		select {
		case l.out <- req:
		case <-ctx.Done():
			return fmt.Errorf("pushing what was listed: %w", context.Cause(ctx))
		}
	}
	return nil
}

func (l *lister[request]) listOnce(ctx context.Context) (reqs []request, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	bounded := ctx
	if l.timeout > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, l.timeout)
		defer cancel()
	}
	defer func() {
		if p := recover(); p != nil {
			reqs, err = nil, &panicError{value: p, stack: string(debug.Stack())}
		}
	}()
	reqs, err = l.list(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it takes longer than its Timeout of %s: %w", l.timeout, err)
	}
	return reqs, err
}

func (l *lister[request]) report(ctx context.Context, err error, p *pace) {
	attrs := []any{"error", err, "failures", p.failures}
	if d, planned := p.next(); planned {
		attrs = append(attrs, "retry_in", d)
	}
	var panicked *panicError
	if errors.As(err, &panicked) {
		attrs = append(attrs, "stack", panicked.stack)
	}
	l.logger.ErrorContext(ctx, "a list failed; what events missed stays unnoticed until one succeeds", attrs...)
}

// panicError is a panic of the list function. The stack is for the log; in an error it would only hide
// the rest.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string { return fmt.Sprintf("the list function panicked: %v", e.value) }

func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}
