package reconciler

import (
	"context"
	"time"

	"github.com/levelstream/jsource/queue"
)

// Reconciler brings the world in line with what is wanted for one request. It is called with the same
// request again and again, so it must look at the present state, never at what changed.
type Reconciler[request any] interface {
	Reconcile(ctx context.Context, req request) (Result, error)
}

// Func is a function that is a [Reconciler].
type Func[request any] func(context.Context, request) (Result, error)

// Reconcile calls f.
func (f Func[request]) Reconcile(ctx context.Context, req request) (Result, error) {
	return f(ctx, req)
}

// Result says what is to follow an attempt that returned no error. With an error it is ignored.
type Result struct {
	// RequeueAfter, if positive, runs the request again after that time.
	RequeueAfter time.Duration
	// Unfinished says that the work goes on elsewhere (a job was started, say): the messages that owe
	// the request are not settled yet, and it runs again after RequeueAfter, or with backoff if that
	// is zero.
	Unfinished bool
	// Changed says that the attempt had something to do. It is only counted: attempts that nothing
	// but the resync caused and that changed something are work that events missed.
	Changed bool
}

// defaultPolicy is [queue.DefaultPolicy] for a Result. What nearly every attempt returns is decided here, without
// the allocation that it takes to ask any type whether it has a KeepOwed.
func defaultPolicy(res Result, err error) queue.Outcome {
	if err == nil && !res.Unfinished {
		return queue.Success
	}
	return queue.DefaultPolicy(res, err)
}

// KeepOwed reports whether the messages that owe the request are to stay unsettled (see
// [queue.DefaultPolicy]).
func (r Result) KeepOwed() bool { return r.Unfinished }

// TerminalError marks err as one that retrying cannot help: the request is not retried until something
// asks for it again, and messages that owe it become dead letters. It returns nil for a nil err.
func TerminalError(err error) error { return queue.Terminal(err) }
