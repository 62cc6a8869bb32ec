package jsource_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/queue"
)

// A controller that is started before its server waits for it, and works when it comes.
func TestStartWaitsForTheServer(t *testing.T) {
	w := newWorld(t)
	conn := w.srv.Conn()
	natstest.WaitConnected(t, conn)
	w.srv.Stop()
	a := w.begin(through(conn)) // a connection that was lost
	b := w.begin()              // and one that was never there
	if isClosed(a.running) || isClosed(b.running) || a.returned() || b.returned() {
		t.Error("it started, or gave up, without a server")
	}
	w.srv.Restart()
	a.waitRunning()
	b.waitRunning()
	natstest.WaitConnected(t, w.srv.Conn())
	w.publish("key")
	natstest.Eventually(t, "one of them reconciles", natstest.Patience, func() error {
		return missing(together(a, b), []string{"key"})
	})
	w.settled()
}

// A source gives up with its context, and says what it waited for.
func TestStartGivesUpWithItsContext(t *testing.T) {
	srv := natstest.Start(t)
	srv.Stop()
	src := jsource.Subject(srv.Conn(), widgets).Track(queue.NewTracker[string]()).Durable("patient")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := src.Start(ctx, make(chan string))
	expectSays(t, err, "shop.widgets", `"patient"`, "waited for the server", context.DeadlineExceeded.Error())
}

// A source gives up after its own bound of 30 seconds, too: the controller stops with an error that names
// itself, the source and what it waited for.
func TestStartGivesUpAfterItsBound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 30 seconds, beside other tests")
	}
	t.Parallel()
	w := newUnwatched(t)
	w.srv.Stop()
	began := time.Now()
	a := w.begin()
	select {
	case <-a.done:
	case <-time.After(2 * natstest.Patience):
		t.Fatal("it waits for ever")
	}
	expectSays(t, a.err, `controller "keeper"`, "source 1 (jsource shop.widgets.>)", "waited for the server")
	if d := time.Since(began); d < 20*time.Second {
		t.Errorf("it gave up after %v: a server takes longer to restart", d)
	}
}

func expectSays(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}
