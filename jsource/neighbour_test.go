package jsource_test

import (
	"testing"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
)

// redpanda-data/connect#1772: a core subscriber on the same subjects answers whatever asks for an answer. A publish
// goes on until the stream's own answer is heard, and stores each event once.
func TestPublishBesideASubscriberThatAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish("first") // and so there is a stream
	stranger := natstest.Connect(t, w.srv.URL())
	_, err := stranger.Subscribe("shop.widgets.>", func(m *natsgo.Msg) { _ = m.Respond([]byte("+ACK")) })
	if err == nil {
		err = stranger.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	const n = 200
	for i := range n {
		r, err := jsource.PublishCreated(t.Context(), w.pub, widgets, "key", widget{Version: i})
		if err != nil || r.Sequence != uint64(i+2) || r.Duplicate {
			t.Fatalf("event %d: %+v, %v", i, r, err)
		}
	}
}
