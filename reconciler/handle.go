package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/levelstream/jsource/queue"
)

// Handle is what a running [Controller] gives each of its sources, through the context it passes to
// Start. A source takes it with [FromContext]; one that is started by anything else finds none and
// must do without. It is made for the authors of sources: whoever only uses sources never sees it.
//
// Its methods may be called from any goroutine.
type Handle struct {
	run     *run
	source  string
	logger  *slog.Logger
	tracker any // *queue.Tracker[request]
	queue   any // *queue.Queue[request]

	pushed atomic.Uint64

	mu    sync.Mutex
	tells queue.Cause // what pushes of this source mean
}

// run is what the sources of one Controller share while it runs.
type run struct {
	controller   string
	everyReplica bool

	mu      sync.Mutex
	claims  map[string]string // what is claimed → by which source
	resyncs []func(reason string)
	stops   []func(context.Context) error
}

type handleKey struct{}

// FromContext returns the handle of the source that was started with ctx, and false when no
// Controller of this package started it.
func FromContext(ctx context.Context) (*Handle, bool) {
	h, ok := ctx.Value(handleKey{}).(*Handle)
	return h, ok
}

// TrackerFrom returns the tracker of the Controller that started a source with ctx: what each of the
// Controller's requests owes. Whoever takes it registers with it whatever it pushes. It is nil when no
// Controller of this package did, or when the source pushes requests of another type than the Controller's.
func TrackerFrom[request comparable](ctx context.Context) *queue.Tracker[request] {
	h, ok := FromContext(ctx)
	if !ok {
		return nil
	}
	t, ok := h.tracker.(*queue.Tracker[request])
	if ok {
		h.mu.Lock()
		h.tells = queue.Owed
		h.mu.Unlock()
	}
	return t
}

// PushLow pushes a request of the source that was started with ctx without its channel, as one that can wait:
// like those of a list, it gives way to the requests of events without starving. It reports false, and does
// nothing, when no Controller started the source.
func PushLow[request comparable](ctx context.Context, req request) bool {
	h, ok := FromContext(ctx)
	if !ok {
		return false
	}
	q, ok := h.queue.(*queue.Queue[request])
	if ok {
		h.pushed.Add(1)
		q.Add(req, queue.Low)
	}
	return ok
}

// Controller is the name of the Controller that runs the source.
func (h *Handle) Controller() string { return h.run.controller }

// Logger carries the controller's and the source's name.
func (h *Handle) Logger() *slog.Logger { return h.logger }

// EveryReplica reports whether the controller was told to run in every replica at once instead of in
// an elected leader only (see [WithEveryReplica]).
func (h *Handle) EveryReplica() bool { return h.run.everyReplica }

// MarkResync says that the source's requests come from a periodic list: they give way to the requests
// of event sources (without starving), and attempts that only they caused are counted apart. Call it
// before the first request is pushed.
func (h *Handle) MarkResync() {
	h.mu.Lock()
	h.tells = queue.Resync
	h.mu.Unlock()
}

// cause is what a push of this source means.
func (h *Handle) cause() queue.Cause {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tells == 0 {
		return queue.Event
	}
	return h.tells
}

// OnResync registers fn to be called when another source of the controller may have missed events
// (see [Handle.RequestResync]). fn must not block.
func (h *Handle) OnResync(fn func(reason string)) {
	h.run.mu.Lock()
	h.run.resyncs = append(h.run.resyncs, fn)
	h.run.mu.Unlock()
}

// RequestResync asks the controller's list sources to list again soon, because this source had to
// recover and may have missed events. It does not wait for them.
func (h *Handle) RequestResync(reason string) {
	h.run.mu.Lock()
	fns := append([]func(string){}, h.run.resyncs...)
	h.run.mu.Unlock()
	for _, fn := range fns {
		fn(reason)
	}
}

// OnStop registers fn to be called once when the controller stops: after it ceased to begin attempts,
// while those already running have until ctx ends to finish. Start of the Controller returns only when
// fn has; its error becomes part of Start's.
func (h *Handle) OnStop(fn func(ctx context.Context) error) {
	stop := func(ctx context.Context) error {
		if err := fn(ctx); err != nil {
			return fmt.Errorf("controller %q: stopping %s: %w", h.run.controller, h.source, err)
		}
		return nil
	}
	h.run.mu.Lock()
	h.run.stops = append(h.run.stops, stop)
	h.run.mu.Unlock()
}

// Claim reserves name for this source among the sources of its controller. It fails, naming the other
// source, when one of them has it.
func (h *Handle) Claim(name string) error {
	h.run.mu.Lock()
	defer h.run.mu.Unlock()
	if other, taken := h.run.claims[name]; taken {
		return fmt.Errorf("%q is already used by %s of controller %q", name, other, h.run.controller)
	}
	if h.run.claims == nil {
		h.run.claims = map[string]string{}
	}
	h.run.claims[name] = h.source
	return nil
}

type everyReplicaKey struct{}

// WithEveryReplica returns a context for [Controller.Start] that tells the controller's sources that
// it runs in every replica at once, without leader election. A durable source then insists on being
// told which replica receives what.
func WithEveryReplica(ctx context.Context) context.Context {
	return context.WithValue(ctx, everyReplicaKey{}, true)
}
