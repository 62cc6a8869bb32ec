package list

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/levelstream/jsource/reconciler"
)

const (
	defaultEvery   = 10 * time.Minute
	defaultJitter  = 0.1
	defaultTimeout = time.Minute
)

// Source pushes the requests that a function lists: once when it starts, and again periodically. Make
// one with [New].
//
// The methods that configure it change it and return it, so that they can be chained; they must not
// be called once the source was started. One Source may be started several times.
type Source[request any] struct {
	list    func(context.Context) ([]request, error)
	every   time.Duration
	jitter  float64
	timeout time.Duration
}

// New returns a source of the requests that list returns. The same request twice is fine. What list
// returns with an error is not pushed. Lists of one started source never overlap; list must give up
// when its context ends, since nothing else can stop it.
func New[request any](list func(context.Context) ([]request, error)) *Source[request] {
	return &Source[request]{list: list, every: defaultEvery, jitter: defaultJitter, timeout: defaultTimeout}
}

// Every sets the pause after one list's requests were pushed and before the next list; see Jitter.
// The default is 10 minutes. With zero or less there is no periodic list: the source lists when it
// starts, and later only when another source of the controller asks for it after a recovery.
func (s *Source[request]) Every(d time.Duration) *Source[request] {
	s.every = d
	return s
}

// Jitter lengthens each pause by a random part of it, up to the fraction f, so that replicas that were
// started together do not list together. The default is 0.1: with Every(10*time.Minute), the pauses
// are 10 to 11 minutes. 0 is none; what is below 0 or above 1 is an error of Start.
func (s *Source[request]) Jitter(f float64) *Source[request] {
	s.jitter = f
	return s
}

// Timeout ends the context of a list that takes longer than d, which counts as a failure. The
// default is 1 minute; with zero or less there is no timeout. Pushing the requests has none.
func (s *Source[request]) Timeout(d time.Duration) *Source[request] {
	s.timeout = d
	return s
}

// String names the source in logs and errors.
func (s *Source[request]) String() string {
	if s.every <= 0 {
		return "list source"
	}
	return fmt.Sprintf("list source (every %s)", s.every)
}

// Start lists for the first time and returns when all of the requests are pushed, so out must be read
// meanwhile. It fails if that list does (its error is wrapped; a panic is an error), when ctx ends
// before, when list is nil and when the jitter is not a fraction.
//
// Until ctx ends, later lists follow in the background. One that fails is logged and tried again, first
// after a second and then with growing pauses that are never longer than Every.
func (s *Source[request]) Start(ctx context.Context, out chan<- request) error {
	if err := s.start(ctx, out); err != nil {
		return fmt.Errorf("starting the %s: %w", s, err)
	}
	return nil
}

func (s *Source[request]) start(ctx context.Context, out chan<- request) error {
	switch {
	case s.list == nil:
		return errors.New("its list function is nil")
	case !(s.jitter >= 0 && s.jitter <= 1): // so that NaN is neither
		return fmt.Errorf("its Jitter is %v; it must be a fraction from 0 to 1", s.jitter)
	}
	l := &lister[request]{Source: s, out: out, logger: slog.Default(), asked: make(chan string, 1)}
	handle, ours := reconciler.FromContext(ctx)
	if ours {
		l.logger = handle.Logger()
		handle.MarkResync()
		handle.OnResync(l.ask)
	}
	if err := l.round(ctx); err != nil {
		var p *panicError
		if errors.As(err, &p) {
			l.logger.ErrorContext(ctx, "the first list panicked", "error", err, "stack", p.stack)
		}
		return err
	}
	if ours || s.every > 0 { // else nothing could cause another list
		go l.run(ctx)
	}
	return nil
}
