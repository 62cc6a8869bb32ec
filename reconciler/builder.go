package reconciler

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/levelstream/jsource/queue"
)

const (
	defaultWorkers    = 1
	defaultGrace      = 20 * time.Second
	defaultBackoff    = 5 * time.Millisecond
	defaultMaxBackoff = 5 * time.Minute
)

// Builder collects what a [Controller] is made of. Its methods change it and return it; they are not
// for concurrent use.
type Builder[request comparable] struct {
	name    string
	sources []Source[request]
	workers int
	limiter workqueue.TypedRateLimiter[request]
	timeout time.Duration
	grace   time.Duration
	logger  *slog.Logger
	policy  queue.Policy[Result]
	errs    []error
}

// New begins a Controller. name appears in logs, metrics, spans and in the names of durable consumers,
// so it must stay the same from one release to the next, and no two controllers that read the same
// topic may share it.
func New[request comparable](name string) *Builder[request] {
	b := &Builder[request]{
		name:    name,
		workers: defaultWorkers,
		grace:   defaultGrace,
		policy:  defaultPolicy,
	}
	if name == "" {
		b.errs = append(b.errs, errors.New("a controller needs a name"))
	}
	return b
}

// Watch adds sources. They are started in the order in which they were added.
func (b *Builder[request]) Watch(srcs ...Source[request]) *Builder[request] {
	for _, src := range srcs {
		if src == nil {
			b.errs = append(b.errs, fmt.Errorf("source %d is nil", len(b.sources)+1))
			continue
		}
		b.sources = append(b.sources, src)
	}
	return b
}

// Workers sets how many requests are worked on at once. Default: 1.
func (b *Builder[request]) Workers(n int) *Builder[request] {
	if n < 1 {
		b.errs = append(b.errs, fmt.Errorf("%d workers: at least 1 is needed", n))
	}
	b.workers = n
	return b
}

// RateLimiter sets how long a request that failed waits before it is tried again. Default: 5
// milliseconds after the first failure, twice that after each further one, at most 5 minutes, for each
// request by itself.
func (b *Builder[request]) RateLimiter(l workqueue.TypedRateLimiter[request]) *Builder[request] {
	if l == nil {
		b.errs = append(b.errs, errors.New("the rate limiter is nil"))
	}
	b.limiter = l
	return b
}

// Timeout bounds each attempt: its context ends after d, and the attempt counts as failed if it returns
// an error then. Default: 0, no bound.
func (b *Builder[request]) Timeout(d time.Duration) *Builder[request] {
	if d < 0 {
		b.errs = append(b.errs, fmt.Errorf("timeout %v is negative", d))
	}
	b.timeout = d
	return b
}

// Grace sets how long attempts that run when the controller stops may take to finish before their
// context is cancelled. Default: 20 seconds, which leaves room for the rest of the stop within the 30
// that Kubernetes gives a pod and controller-runtime a manager. 0 cancels them at once.
func (b *Builder[request]) Grace(d time.Duration) *Builder[request] {
	if d < 0 {
		b.errs = append(b.errs, fmt.Errorf("grace period %v is negative", d))
	}
	b.grace = d
	return b
}

// Logger sets where the controller logs. Default: the logr logger that Start's context carries, as it does
// under a controller-runtime manager, otherwise slog.Default().
func (b *Builder[request]) Logger(l *slog.Logger) *Builder[request] {
	b.logger = l
	return b
}

// Outcome replaces the policy that says what an attempt means for the messages that owe its request.
// Default: [queue.DefaultPolicy]. It is for a Reconciler that returns RequeueAfter with a nil error
// without having reconciled anything, for example when a rate limiter of its own held it back: a policy
// that answers Unfinished to that keeps the messages owed.
func (b *Builder[request]) Outcome(p func(Result, error) queue.Outcome) *Builder[request] {
	if p == nil {
		b.errs = append(b.errs, errors.New("the outcome policy is nil"))
	}
	b.policy = p
	return b
}

// Func finishes the Controller with a function as its Reconciler. The error tells everything that was
// wrong with what the Builder was given.
func (b *Builder[request]) Func(fn Func[request]) (*Controller[request], error) {
	if fn == nil {
		return b.build(nil)
	}
	return b.build(fn)
}

// Reconciler finishes the Controller. The error tells everything that was wrong with what the Builder
// was given.
func (b *Builder[request]) Reconciler(r Reconciler[request]) (*Controller[request], error) {
	return b.build(r)
}

func (b *Builder[request]) build(r Reconciler[request]) (*Controller[request], error) {
	errs := b.errs
	if r == nil {
		errs = append(errs, errors.New("the Reconciler is nil"))
	}
	if len(b.sources) == 0 {
		errs = append(errs, errors.New("it watches no source; add one with Watch"))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("building controller %q: %w", b.name, errors.Join(errs...))
	}
	limiter := b.limiter
	if limiter == nil {
		limiter = workqueue.NewTypedItemExponentialFailureRateLimiter[request](defaultBackoff, defaultMaxBackoff)
	}
	return &Controller[request]{
		name:       b.name,
		sources:    append([]Source[request](nil), b.sources...),
		reconciler: r,
		limiter:    limiter,
		workers:    b.workers,
		timeout:    b.timeout,
		grace:      b.grace,
		logger:     b.logger,
		policy:     b.policy,
		tracker:    queue.NewTracker[request](),
	}, nil
}
