package jsource_test

import (
	"testing"

	"github.com/levelstream/jsource/internal/natstest"
)

// Case 16: the stream is purged while three messages are in reconcile. Their verdicts are answered all the
// same, nothing is sent for ever, and later events flow.
func TestPurgeWhileReconciling(t *testing.T) {
	w := newWorld(t)
	keys := numbered("key", 3)
	a := w.join(workers(3), holding(keys...))
	w.publish(keys...)
	a.waitBegun(t, keys...)
	stream, err := w.js.Stream(t.Context(), widgetStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.release(keys...)
	a.waitDone(t, keys...)
	natstest.Until(t, "no answer is waited for", natstest.Patience, func() bool {
		s := a.source.Status(0)
		return s.Unconfirmed == 0 && s.Held == 0
	})
	w.settled()
	later := w.publish("later")[0]
	a.waitDone(t, "later")
	w.settled()
	if info := w.info(); info.AckFloor.Stream != later.Sequence {
		t.Errorf("the ack floor is %d, want %d", info.AckFloor.Stream, later.Sequence)
	}
	if err := a.source.Healthy(); err != nil {
		t.Errorf("unhealthy: %v", err)
	}
	a.stop()
	a.wait()
}
