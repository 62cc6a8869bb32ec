package jsource_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
)

// T1 under load: replicas are replaced one after the other while events are published, and nothing waits for
// AckWait, not what was buffered, under way or being handed over. The one that is stopped gives running
// attempts no time at all in half of the rounds.
func TestRollingRestartDelaysNothing(t *testing.T) {
	const rounds = 6
	w := newWorld(t)
	work := doing(func(ctx context.Context, _ string) (reconciler.Result, error) {
		select {
		case <-time.After(time.Millisecond):
			return reconciler.Result{}, nil
		case <-ctx.Done():
			return reconciler.Result{}, ctx.Err()
		}
	})
	members := []*member{w.join(work)}

	stored := map[string]time.Time{}
	ctx, stop := context.WithCancel(t.Context())
	published := make(chan struct{})
	go func() {
		defer close(published)
		for n := 0; ctx.Err() == nil; n++ {
			key := "key" + strconv.Itoa(n)
			if _, err := jsource.PublishCreated(context.Background(), w.pub, widgets, key, widget{}); err != nil {
				t.Error(err)
				return
			}
			stored[key] = time.Now()
			time.Sleep(500 * time.Microsecond) // the load; nothing depends on it
		}
	}()
	for round := range rounds {
		grace := time.Duration(round%2) * time.Second
		m := w.join(work, built(func(b *reconciler.Builder[string]) { b.Grace(grace) }))
		members = append(members, m)
		natstest.Until(t, "the new replica works", natstest.Patience, func() bool { return len(m.all()) > 20 })
		members[round].stop()
		members[round].wait()
	}
	stop()
	<-published
	w.settled()

	// When each key was first reconciled to the end.
	ended := map[string]time.Time{}
	for _, m := range members {
		for _, a := range m.all() {
			if e, known := ended[a.req]; a.err == nil && !a.ended.IsZero() && (!known || a.ended.Before(e)) {
				ended[a.req] = a.ended
			}
		}
	}
	var late []time.Duration
	for key, at := range stored {
		e, reconciled := ended[key]
		if !reconciled {
			t.Errorf("%s was never reconciled", key)
		}
		late = append(late, e.Sub(at))
	}
	slices.Sort(late)
	t.Logf("%d events in %d replicas; from stored to reconciled: median %v, longest %v", len(stored), len(members),
		late[len(late)/2], late[len(late)-1])
	if longest := late[len(late)-1]; longest > 2*soon {
		t.Errorf("an event took %v", longest)
	}
}
