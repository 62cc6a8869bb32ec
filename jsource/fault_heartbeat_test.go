package jsource_test

import (
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/natstest"
)

// L1 and T2: a server that does not get around to answering gets its heartbeats every third of AckWait and no
// more often. With a thousand messages held, more of them are what keeps it from answering, and from
// everything else on the connection.
func TestSilentServerGetsNoMoreHeartbeats(t *testing.T) {
	const (
		ackWait = 600 * time.Millisecond
		beats   = 6
	)
	w := newWorld(t)
	proxy := natstest.NewProxy(t, w.srv.Addr())
	a := w.join(through(natstest.Connect(t, proxy.URL())), holding("key"),
		withSource(func(s *widgetSource) { s.AckWait(ackWait) }))
	seq := w.publish("key")[0].Sequence
	a.waitBegun(t, "key")
	proxy.Stall(natstest.ServerToClient)
	w.witness.Sync(t)
	var seen []natstest.Settlement
	from := len(w.witness.Of(seq))
	natstest.Until(t, "heartbeats that are not answered", natstest.Patience, func() bool {
		seen = w.witness.Of(seq)[from:]
		return len(seen) >= beats
	})
	proxy.Resume(natstest.ServerToClient)
	// The first one may be the end of an interval that had begun before.
	took, want := seen[beats-1].At.Sub(seen[0].At), (beats-1)*ackWait/3
	if took < want*3/4 {
		t.Errorf("%d heartbeats within %v, want one each %v", beats, took, ackWait/3)
	}
	a.release("key")
	w.settled()
	a.expectOnce(t, "key")
}
