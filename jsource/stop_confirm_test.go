package jsource_test

import (
	"context"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/reconciler"
)

// T1, case 11: Start returns when the server has confirmed the last verdicts, not when they were sent. The
// proof: answers are held back until the same ack went over the wire a second time.
func TestStopWaitsForConfirmations(t *testing.T) {
	w := newWorld(t)
	proxy := natstest.NewProxy(t, w.srv.Addr())
	a := w.join(through(natstest.Connect(t, proxy.URL())), holding("busy"))
	busy := w.publish("busy")[0]
	a.waitBegun(t, "busy")
	waiting := w.publish("waiting")[0]
	waitHeld(t, a.source, 2)

	a.stop()
	w.witness.WaitFor(t, "what waits is given back", func(all []natstest.Settlement) bool {
		for _, s := range all {
			if s.StreamSeq == waiting.Sequence && s.Kind == natstest.Nak {
				return true
			}
		}
		return false
	})
	proxy.Stall(natstest.ServerToClient)
	a.release("busy")
	w.witness.WaitFor(t, "the ack is sent again", func([]natstest.Settlement) bool {
		return len(w.witness.Verdicts(busy.Sequence)) >= 2
	})
	if a.returned() {
		t.Error("Start returned before the ack was confirmed")
	}
	proxy.Resume(natstest.ServerToClient)
	a.wait()
}

// Case 11: the connection is cut right after the ack. Whether the server got it or not, the message is settled
// without being reconciled again, by the replica or by one that is started afterwards.
func TestAckSurvivesACut(t *testing.T) {
	for name, direction := range map[string]natstest.Direction{
		"before it arrived": natstest.ClientToServer,
		"before the answer": natstest.ServerToClient,
	} {
		for when, stopping := range map[string]bool{"": false, " while stopping": true} {
			t.Run(name+when, func(t *testing.T) {
				w := newWorld(t)
				proxy := natstest.NewProxy(t, w.srv.Addr())
				a := w.join(through(natstest.Connect(t, proxy.URL())), holding("busy"))
				busy := w.publish("busy")[0]
				a.waitBegun(t, "busy")
				if stopping {
					// Another message shows when the stop has come to waiting for attempts.
					waiting := w.publish("waiting")[0]
					waitHeld(t, a.source, 2)
					a.stop()
					w.witness.WaitFor(t, "what waits is given back", func(all []natstest.Settlement) bool {
						return all != nil && all[len(all)-1].StreamSeq == waiting.Sequence
					})
				}
				proxy.Stall(direction)
				a.release("busy")
				natstest.Until(t, "the ack is sent", natstest.Patience, func() bool {
					return a.source.Status(0).Unconfirmed > 0
				})
				if direction == natstest.ServerToClient {
					w.witness.WaitFor(t, "the ack", func([]natstest.Settlement) bool {
						return len(w.witness.Verdicts(busy.Sequence)) > 0
					})
				}
				proxy.Cut()
				proxy.Resume(direction)
				if !stopping {
					w.settled()
					a.stop()
				}
				a.wait()
				a.expectOnce(t, "busy")

				b := w.join()
				last := w.publish("last")[0]
				b.waitDone(t, "last")
				w.settled()
				if n := b.begun()["busy"]; n != 0 {
					t.Errorf("another replica reconciled it %d times", n)
				}
				for _, s := range w.witness.Verdicts(busy.Sequence) {
					if s.Deliveries != 1 {
						t.Errorf("%v: it was handed out again", s)
					}
				}
				w.expectSaid(last.Sequence, "ack of delivery 1")
			})
		}
	}
}

// Case 12: the ack does not depend on the reconcile's context, which ends as the reconcile succeeds.
func TestAckSurvivesTheReconcilesContext(t *testing.T) {
	t.Run("timeout", func(t *testing.T) {
		w := newWorld(t)
		a := w.join(
			built(func(b *reconciler.Builder[string]) { b.Timeout(50 * time.Millisecond) }),
			doing(func(ctx context.Context, _ string) (reconciler.Result, error) {
				<-ctx.Done()
				return reconciler.Result{}, nil
			}))
		r := w.publish("key")[0]
		w.settled()
		a.expectOnce(t, "key")
		w.expectSaid(r.Sequence, "ack of delivery 1")
	})
	t.Run("another engine", func(t *testing.T) {
		w := newWorld(t)
		var e *channelEngine
		e = w.engine(1, func(context.Context, string) (reconciler.Result, error) {
			e.cancel()
			return reconciler.Result{}, nil
		})
		r := w.publish("key")[0]
		e.waitDone(t, "key")
		e.drain(t, natstest.Patience)
		w.expectSaid(r.Sequence, "ack of delivery 1")
	})
}
