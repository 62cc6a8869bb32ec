package jsource

import (
	"context"
	"errors"
	"time"
)

const (
	// underWay bounds how long a stop waits for messages that the server has sent already.
	underWay = time.Second
	// confirming bounds how long a stop waits for the server to confirm the last verdicts.
	confirming = 5 * time.Second
	// stopPoll is how often a stop looks whether running attempts have ended.
	stopPoll = 2 * time.Millisecond
)

// Drain stops the source of an engine that is not this module's: it pulls no more, gives back what no
// running attempt covers, lets attempts that are running finish until ctx ends, settles what they
// reconciled, gives the rest back and waits for the server to confirm. Call it when the engine stops, best
// when its workers have; a second replica has everything that was given back at once instead of after
// AckWait. It returns nil if the source was not started. A controller of this module does all this by
// itself.
func (s *Source[K, T, request]) Drain(ctx context.Context) error {
	s.mu.Lock()
	r := s.run
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.stop(ctx)
}

// stop stops the source; ctx is the grace period of running attempts. Further calls wait for the first, whose
// grace period ends with that of any of them.
func (r *run[K, T, request]) stop(ctx context.Context) error {
	if !r.draining.Swap(true) {
		r.stopErr = r.wind(ctx)
		r.mute()
		r.metrics.End()
		close(r.stopped)
		r.workers.Wait()
		return r.stopErr
	}
	select {
	case <-r.stopped:
		return r.stopErr
	case <-ctx.Done():
		r.hurryOnce.Do(func() { close(r.hurry) })
	}
	<-r.stopped // soon: what is left is bounded
	return r.stopErr
}

// wind winds the source up.
func (r *run[K, T, request]) wind(ctx context.Context) error {
	// Attempts that begin from now on count for nothing.
	r.group.Stop()
	close(r.stopping)
	r.cancel() // a push nobody takes, a mapper that waits: whatever Handle is doing ends
	// Also without any grace: what is under way would be left to redelivery.
	pullCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), underWay)
	err := r.consumer.StopPulling(pullCtx)
	cancel()
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // without a connection nothing arrives either
	}

	// What no running attempt can settle goes back now, and so does, as attempts end without success,
	// what they covered.
	for r.giveBack(ctx.Err() != nil || r.hurried()) > 0 {
		time.Sleep(stopPoll)
	}

	closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirming)
	defer cancel()
	return errors.Join(err, r.consumer.Close(closeCtx))
}

// hurried reports whether somebody who waits for the stop has no more time for running attempts.
func (r *run[K, T, request]) hurried() bool {
	select {
	case <-r.hurry:
		return true
	default:
		return false
	}
}

// giveBack gives back what is held and cannot be settled by an attempt that runs now, or, with all, even
// what can. It returns how much is still held.
func (r *run[K, T, request]) giveBack(all bool) (left int) {
	for _, m := range r.consumer.Held() {
		if d, ok := m.Owner().(*delivery[K, T, request]); ok {
			burying, stuck := d.burying()
			now := all || stuck // nobody waits for what may take for ever
			if !r.group.Abandon(&d.Entry, now) || burying && !now {
				left++
				continue
			}
		}
		m.GiveBack(0)
	}
	return left
}
