package jsource_test

import (
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/reconciler"
)

// T1, case 22: what a stopping replica has not begun, another one that runs has within a second, not after
// the AckWait of 30 seconds, and twice is handed out only what was handed out before. What runs is
// finished, and acked by the replica that ran it.
func TestStopGivesBackWhatIsBuffered(t *testing.T) {
	w := newWorld(t)
	a := w.join(holding("busy"))
	busy := w.publish("busy")[0]
	a.waitBegun(t, "busy")
	buffered := numbered("buffered", 50)
	receipts := w.publish(buffered...)
	waitHeld(t, a.source, 51)
	b := w.join()

	stop := a.stop()
	b.waitBegun(t, buffered...)
	for _, run := range b.all() {
		if late := run.began.Sub(stop); late > soon {
			t.Errorf("%s began %v after the stop, want at most %v", run.req, late, soon)
		}
	}
	if a.returned() {
		t.Error("Start returned while an attempt was running")
	}
	a.release("busy")
	a.wait()
	w.settled()
	a.expectOnce(t, "busy")
	b.expectOnce(t, buffered...)
	w.expectSaid(busy.Sequence, "ack of delivery 1")
	for _, r := range receipts {
		w.expectSaid(r.Sequence, "nak of delivery 1, ack of delivery 2")
	}
}

// T1: attempts that finish within the grace period are acked, and when Start returns the server has
// confirmed that: nobody needs to wait for it.
func TestStopAcksWhatFinishesWithinTheGrace(t *testing.T) {
	w := newWorld(t)
	keys := numbered("running", 3)
	a := w.join(workers(3), holding(keys...))
	receipts := w.publish(keys...)
	a.waitBegun(t, keys...)

	a.stop()
	a.release(keys...)
	a.wait()
	if info := w.info(); info.NumAckPending != 0 || info.AckFloor.Stream != receipts[2].Sequence {
		t.Errorf("when Start returned %d messages were unsettled and the ack floor was %d; want 0, %d",
			info.NumAckPending, info.AckFloor.Stream, receipts[2].Sequence)
	}
	for _, r := range receipts {
		w.expectSaid(r.Sequence, "ack of delivery 1")
	}
}

// T1: an attempt that does not finish within the grace period is given back when that has ended, cancelled,
// and what it answers afterwards counts for nothing, even if it takes no notice and succeeds.
func TestStopGivesBackWhatOutlastsTheGrace(t *testing.T) {
	const grace = 300 * time.Millisecond
	for name, stubborn := range map[string]bool{"cancelled": false, "takes no notice": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			late := make(chan struct{})
			opts := []memberOf{built(func(b *reconciler.Builder[string]) { b.Grace(grace) })}
			if stubborn {
				opts = append(opts, doing(waitFor(late)))
			} else {
				opts = append(opts, holding("slow"))
			}
			a := w.join(opts...)
			slow := w.publish("slow")[0]
			a.waitBegun(t, "slow")
			b := w.join()

			stop := a.stop()
			b.waitDone(t, "slow")
			if d := b.all()[0].began.Sub(stop); d < grace || d > grace+soon {
				t.Errorf("the other replica began %v after the stop, want %v to %v", d, grace, grace+soon)
			}
			close(late)
			a.wait()
			w.settled()
			w.expectSaid(slow.Sequence, "nak of delivery 1, ack of delivery 2")
		})
	}
}

// T1, case 23: three requests are queued and one worker is busy; after the stop it begins none of them, and
// nothing is acked that was not reconciled.
func TestStopBeginsNothing(t *testing.T) {
	w := newWorld(t)
	a := w.join(holding("busy"))
	busy := w.publish("busy")[0]
	a.waitBegun(t, "busy")
	queued := w.publish("one", "two", "three")
	natstest.Until(t, "all are queued", natstest.Patience, func() bool { return a.ctl.Stats().Queued == 3 })

	a.stop()
	a.release("busy")
	a.wait()
	a.expectOnce(t, "busy")
	w.expectSaid(busy.Sequence, "ack of delivery 1")
	for _, r := range queued {
		w.expectSaid(r.Sequence, "nak of delivery 1")
	}
	if info := w.info(); info.AckFloor.Stream != busy.Sequence || info.NumAckPending+int(info.NumPending) != 3 {
		t.Errorf("ack floor %d, %d unsettled, %d to be handed out; want %d and 3 in all",
			info.AckFloor.Stream, info.NumAckPending, info.NumPending, busy.Sequence)
	}
	b := w.join()
	b.waitDone(t, "one", "two", "three")
	w.settled()
}

// T1: what the server has sent and the replica has not received when it stops is given back as well, even if
// running attempts get no time at all.
func TestStopGivesBackWhatIsUnderWay(t *testing.T) {
	w := newWorld(t)
	proxy := natstest.NewProxy(t, w.srv.Addr())
	a := w.join(through(natstest.Connect(t, proxy.URL())), built(func(b *reconciler.Builder[string]) { b.Grace(0) }))
	w.publish("first")
	a.waitDone(t, "first") // from now on it asks for more than one message
	w.settled()
	proxy.Stall(natstest.ServerToClient)
	underWay := numbered("key", 10)
	w.publish(underWay...)
	w.unsettled(10)
	b := w.join()

	stop := a.stop()
	for range 20 {
		w.info() // meanwhile a would be done, if it waited for nothing
	}
	proxy.Resume(natstest.ServerToClient)
	b.waitDone(t, underWay...)
	for _, run := range b.all() {
		if late := run.began.Sub(stop); late > soon {
			t.Errorf("%s began %v after the stop", run.req, late)
		}
	}
	a.wait()
	w.settled()
}
