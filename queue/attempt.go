package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Attempt is one run of the reconcile function on one request, from [Tracker.Begin] to [Attempt.End].
type Attempt[request comparable] struct {
	tracker *Tracker[request]
	record  *record[request]
	req     request
	tick    uint64
	owed    int
	fails   int
}

// Begin takes the snapshot of an attempt on req: it covers every message that owes req now, and none
// that is registered later.
func (t *Tracker[request]) Begin(req request) Attempt[request] {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.began++; t.began == 1 {
		close(t.attempted)
	}
	t.running++
	t.active = t.now()
	r := t.record(req)
	a := Attempt[request]{tracker: t, record: r, req: req, tick: t.next(), owed: int(r.owed), fails: int(r.failures)}
	if r.running == 0 {
		r.alone = a.tick
	}
	r.running++
	r.begun = a.tick
	t.passed = max(t.passed, r.pushTick)
	r.pushTick, r.pushes = 0, 0
	return a
}

// Request is what the attempt runs on.
func (a *Attempt[request]) Request() request { return a.req }

// Owed is the number of messages that owed the request when the attempt began.
func (a *Attempt[request]) Owed() int { return a.owed }

// Number counts the attempts on the request since it last succeeded, from 1, as far as messages that
// owe it were there to see them.
func (a *Attempt[request]) Number() int { return a.fails + 1 }

// Covered yields the messages that the attempt covers and that are still owed, oldest first. It holds
// the tracker's lock meanwhile: the body of the loop must be short and must not call the tracker.
func (a *Attempt[request]) Covered() iter.Seq[Message[request]] {
	return func(yield func(Message[request]) bool) {
		a.tracker.mu.Lock()
		defer a.tracker.mu.Unlock()
		for l := a.record.first; l != nil && l.tick < a.tick; l = l.next {
			if a.covers(l) && !yield(l.entry.msg) {
				return
			}
		}
	}
}

// covers reports whether the attempt's outcome counts for l, which owes its request. The caller holds mu.
func (a *Attempt[request]) covers(l *link[request]) bool {
	stopped := l.entry.group.stopped
	return l.tick < a.tick && (stopped == 0 || a.tick < stopped)
}

// End settles, or does not, what the attempt covers, as o says; err is what the attempt returned.
func (a *Attempt[request]) End(o Outcome, err error) {
	type settlement struct {
		entry *Entry[request]
		by    Message[request]
	}
	type death struct {
		entry    *Entry[request]
		attempts int
	}
	var (
		settled []settlement
		dead    []death
	)
	t, r := a.tracker, a.record
	t.mu.Lock()
	t.active = t.now()
	t.running--
	r.running--
	switch o {
	case Success:
		r.failures, r.lastErr = 0, nil
	case Failed, Dead:
		failed := err // a variable of its own: only this one is moved to the heap
		r.failures, r.lastErr = r.failures+1, &failed
	}
	first := r.first
	if o == Unfinished || o == Cut {
		first = nil // they change nothing, and many may be owed
	}
	var next *link[request]
	for l := first; l != nil && l.tick < a.tick; l = next {
		next = l.next
		if !a.covers(l) {
			continue
		}
		switch o {
		case Success:
			r.remove(l)
			if l.finish() {
				settled = append(settled, settlement{entry: l.entry})
			}
		case Failed, Dead:
			l.failed++
			if o == Dead || (l.entry.group.maxAttempts > 0 && int(l.failed) >= l.entry.group.maxAttempts) {
				l.unsupersede() // it is dying, not owed: a newer message does not save it
				r.remove(l)
				l.state = linkDying
				dead = append(dead, death{l.entry, int(l.failed)})
			}
		}
	}
	if r.owed > 0 && r.running == 0 {
		// From now on the engine is expected to try again.
		r.pushed, r.pushTick = t.active, t.next()
	}
	t.release(r)
	for i := range settled {
		settled[i].by = settled[i].entry.drop(t)
	}
	t.mu.Unlock()

	for _, s := range settled {
		s.entry.report(s.by)
	}
	for _, d := range dead {
		d.entry.msg.Died(a.req, Death{Err: err, Attempts: d.attempts, Terminal: o == Dead})
	}
}

// Observer is told of each attempt as it begins. The context it returns is the one the attempt gets;
// the function it returns, which may be nil, is called when the attempt has ended, before anything is
// settled by it.
type Observer[request comparable] func(ctx context.Context, a *Attempt[request]) (
	context.Context, func(Outcome, error))

// SetObserver sets who is told of attempts, for tracing. Call it before the first attempt.
func (t *Tracker[request]) SetObserver(o Observer[request]) {
	t.mu.Lock()
	t.observe = o
	t.mu.Unlock()
}

// Wrap returns fn as an attempt: what t says is owed when it begins is settled by its outcome, as
// [DefaultPolicy] sees it. It belongs innermost: whatever sits outside it may skip attempts, retry them,
// recover their panics. A panic of fn counts as a failed attempt and goes on.
func Wrap[request comparable, result any](t *Tracker[request],
	fn func(context.Context, request) (result, error),
) func(context.Context, request) (result, error) {
	return WrapPolicy(t, DefaultPolicy[result], fn)
}

// WrapPolicy is [Wrap] with a policy of one's own: for a reconciler, say, whose rate limiter returns
// "requeue after" with a nil error without having reconciled anything.
func WrapPolicy[request comparable, result any](t *Tracker[request], policy Policy[result],
	fn func(context.Context, request) (result, error),
) func(context.Context, request) (result, error) {
	return func(ctx context.Context, req request) (result, error) {
		res, _, err := Run(ctx, t.Begin(req), policy, fn)
		return res, err
	}
}

// errExited is the outcome of a reconcile function that called runtime.Goexit.
var errExited = errors.New("the reconcile function ended its goroutine")

// Run runs fn as the attempt a, which it ends, for engines that want to look at the attempt first and at
// its outcome afterwards.
func Run[request comparable, result any](ctx context.Context, a Attempt[request], policy Policy[result],
	fn func(context.Context, request) (result, error),
) (res result, o Outcome, err error) {
	var observed func(Outcome, error)
	a.tracker.mu.Lock()
	observe := a.tracker.observe
	a.tracker.mu.Unlock()
	if observe != nil {
		ctx, observed = observe(ctx, &a)
	}
	end := func(end Outcome, err error) Outcome {
		if end == Failed && errors.Is(ctx.Err(), context.Canceled) {
			end = Cut // a timeout is a failure; being cancelled is stopping
		}
		if observed != nil {
			observed(end, err)
		}
		a.End(end, err)
		return end
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		p := recover()
		if p == nil {
			end(Failed, errExited)
			return
		}
		end(Failed, fmt.Errorf("panic: %v", p))
		panic(p)
	}()
	res, err = fn(ctx, a.req)
	o = policy(res, err)
	returned = true
	return res, end(o, err), err
}
