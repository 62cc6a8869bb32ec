package jsource

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/metrics"
	"github.com/levelstream/jsource/queue"
)

const (
	// full is the share of MaxAckPending at which the requests that hold it are named.
	full = 0.8
	// named is how many of them are.
	named = 5
)

// watch is what the source has noticed of the engine it pushes to.
type watch struct {
	mu      sync.Mutex
	stalled error // the engine works on nothing
	events  uint64
	total   time.Duration
	longest time.Duration
}

// reconciled notes that an event was reconciled d after it had been stored.
func (w *watch) reconciled(d time.Duration) {
	w.mu.Lock()
	w.events++
	w.total += d
	w.longest = max(w.longest, d)
	w.mu.Unlock()
}

// measured is what is reported of the source as metrics.
func (r *run[K, T, request]) measured() metrics.SourceReading {
	s := r.consumer.Status()
	n := s.Counts
	return metrics.SourceReading{
		Received: n.Received, Redelivered: n.Redelivered, Acked: n.Acked, Termed: n.Termed, GivenBack: n.GivenBack, Forgotten: n.Forgotten,
		Absorbed: n.Absorbed, Repeated: n.Repeated, Heartbeats: n.Heartbeats, Unconfirmed: n.Unconfirmed, Recoveries: n.Recoveries,
		Letters: r.burials.counted(), Held: s.Held, Limit: s.MaxAckPending, Pending: s.Pending, Oldest: s.Oldest,
		Healthy: r.healthy() == nil,
	}
}

func (w *watch) setStalled(err error) {
	w.mu.Lock()
	w.stalled = err
	w.mu.Unlock()
}

// look is the goroutine that looks after the engine: once that works, it lets more than one message in; what
// was dropped it pushes again, and gives back what is dropped for good.
func (r *run[K, T, request]) look() {
	bound := r.consumer.AckWait()
	ticker := time.NewTicker(max(bound/4, 10*time.Millisecond))
	defer ticker.Stop()
	attempted := r.tracker.Attempted()
	var (
		crowded bool
		seen    uint64    // attempts begun when the engine was found not to work on something
		probe   []request // pushed while it is, so that it has something to begin
	)
	for {
		select {
		case <-r.stopping:
			return
		case <-attempted:
			attempted = nil
			r.consumer.SetLimit(r.consumer.MaxAckPending())
			continue
		case <-ticker.C:
		}
		again, lost := r.group.Overdue(bound)
		for i, req := range append(again, probe...) {
			if i < len(again) {
				r.log.Warn("no attempt has begun on a request: pushed again", "request", req, "within", bound)
			}
			select {
			case r.out <- req:
				continue
			case <-r.stopping:
				return
			case <-ticker.C:
			}
			break // nobody takes what is pushed
		}
		works := !slices.ContainsFunc(lost, func(l queue.Lost[request]) bool { return !l.Works })
		if !works {
			r.consumer.SetLimit(0) // first, or what is given back is pulled again
		}
		for _, l := range lost {
			d, ok := l.Message.(*delivery[K, T, request])
			if !ok {
				continue // the group has no others
			}
			d.failed(errors.New("no attempt began, though its requests were pushed several times"))
			probe = []request{l.Request}
			d.msg.GiveBack(jitter(r.src.options.delays.lost))
		}
		switch began := r.tracker.Began(); {
		case len(lost) > 0:
			seen = began
			consequence := "and none are pulled until one does; does the engine run workers, and is its reconcile function wrapped?"
			if works {
				consequence = "though the engine works on others; does it drop requests?"
			}
			err := fmt.Errorf("no attempt begins on what is pushed (%v, for one): %d messages given back, %s",
				lost[0].Request, len(lost), consequence)
			r.log.Error("the engine does not work on requests", "error", err)
			r.watch.setStalled(err)
		case probe != nil && began != seen:
			probe = nil
			r.log.Info("the engine works on requests again")
			r.watch.setStalled(nil)
			r.consumer.SetLimit(r.consumer.MaxAckPending())
		}
		crowded = r.name(crowded)
	}
}

// name logs the requests that hold the unsettled messages when there is little room for more.
func (r *run[K, T, request]) name(was bool) bool {
	s := r.consumer.Status()
	crowded := float64(s.Held) >= full*float64(s.MaxAckPending)
	if crowded && !was {
		holds := r.group.Holding(named)
		list := make([]string, len(holds))
		for i, h := range holds {
			list[i] = fmt.Sprintf("%v (%d messages for %v, %d failed attempts, last error: %v)",
				h.Request, h.Messages, time.Since(h.Since).Round(time.Millisecond), h.Attempts, h.LastErr)
		}
		r.log.Warn("unsettled messages near MaxAckPending: beyond it no event arrives", "held", s.Held,
			"max", s.MaxAckPending, "held by", list)
	}
	return crowded
}

// Status is how a Source is doing.
type Status[request comparable] struct {
	consumer.Status
	Buried     uint64        // dead letters stored
	Reconciled uint64        // events settled because they were reconciled
	Longest    time.Duration // the longest any of them took from being stored to being reconciled
	Holding    []Hold[request]
}

// Hold says what one request holds up.
type Hold[request comparable] struct {
	Request  request
	Messages int       // messages that owe it
	Since    time.Time // since when the oldest of them does
	Attempts int       // failed attempts in a row
	LastErr  error     // of the last of those
	Running  bool      // an attempt is running
}

// Status returns how the source is doing, and the requests that have held its messages longest, at most limit
// of them. It looks at everything that is owed: call it to report.
func (s *Source[K, T, request]) Status(limit int) Status[request] {
	s.mu.Lock()
	r := s.run
	s.mu.Unlock()
	if r == nil {
		return Status[request]{Status: consumer.Status{Err: errNotStarted}}
	}
	st := Status[request]{Status: r.consumer.Status()}
	st.Err = r.healthy()
	r.watch.mu.Lock()
	st.Reconciled, st.Longest = r.watch.events, r.watch.longest
	r.watch.mu.Unlock()
	for _, n := range r.burials.counted() {
		st.Buried += n
	}
	for _, h := range r.group.Holding(limit) {
		st.Holding = append(st.Holding, Hold[request](h))
	}
	return st
}

var errNotStarted = errors.New("the source was not started; another replica may lead")

// Healthy returns nil while the source consumes and what it consumes is worked on; otherwise what is wrong.
func (s *Source[K, T, request]) Healthy() error {
	s.mu.Lock()
	r := s.run
	s.mu.Unlock()
	if r == nil {
		return errNotStarted
	}
	return r.healthy()
}

// Check is Healthy in the form that controller-runtime's healthz.Checker has:
//
//	mgr.AddReadyzCheck("promotion-requests", source.Check)
//
// A source that was not started passes: so a replica that waits to become the leader is ready. Without
// controller-runtime, call Healthy in a handler of one's own. A source that is not healthy recovers by itself: use
// it for readiness, not for liveness.
func (s *Source[K, T, request]) Check(*http.Request) error {
	if err := s.Healthy(); !errors.Is(err, errNotStarted) {
		return err
	}
	return nil
}

func (r *run[K, T, request]) healthy() error {
	r.watch.mu.Lock()
	stalled := r.watch.stalled
	r.watch.mu.Unlock()
	if err := errors.Join(r.consumer.Healthy(), stalled, r.burials.health()); err != nil {
		return fmt.Errorf("durable %q: %w", r.durable, err)
	}
	return nil
}
