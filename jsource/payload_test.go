package jsource_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler/nats"
)

// A payload as large as a server can be made to take is no event, and its dead letter, for which that leaves no
// room, a reference; a large event is reconciled; neither holds up the small ones. (Streams on files take 32 MiB,
// so this one is in memory.)
func TestPayloadsOf64MiB(t *testing.T) {
	if testing.Short() {
		t.Skip("that much takes its time")
	}
	// Not parallel: it leaves no other test enough of the machine.
	const most = 64 << 20
	w := newWorld(t, natstest.WithConfig(func(o *server.Options) { o.MaxPayload, o.MaxPending = most, 4*most }))
	w.pub = newPublisher(t, w.srv.Conn(), jsource.PublisherTimeout(natstest.Patience))
	m := w.join(withSource(func(s *widgetSource) {
		s.UndecodableDelay(again).DeadLetters(jetstream.StreamConfig{Storage: jetstream.MemoryStorage}).
			Stream(jetstream.StreamConfig{Name: widgetStream, Storage: jetstream.MemoryStorage})
	}))
	w.publish("before")
	large := widget{Color: strings.Repeat("x", most/8)}
	if _, err := jsource.PublishCreated(t.Context(), w.pub, widgets, "large", large); err != nil {
		t.Fatal(err)
	}
	w.publish("between")
	ctx, cancel := context.WithTimeout(t.Context(), natstest.Patience)
	defer cancel()
	if _, err := w.js.Publish(ctx, widgets.SubjectOf(nats.Created), bytes.Repeat([]byte("x"), most)); err != nil {
		t.Fatal(err)
	}
	w.publish("after")
	m.waitDone(t, "before", "large", "between", "after")
	letter := w.waitLetters(1)[0]
	if len(letter.Data) != 0 || letter.Header.Get(jsource.DeadReference) == "" {
		t.Errorf("the letter holds %d bytes, with the headers %v", len(letter.Data), letter.Header)
	}
	w.settled()
	m.expectOnce(t, "before", "large", "between", "after")
}
