package bench

import (
	"testing"

	"github.com/levelstream/jsource/reconciler/nats"
)

// BenchmarkDecode is what each event costs before its mapper runs, whatever it came over.
func BenchmarkDecode(b *testing.B) {
	topic := nats.NewTopic[string, Row]("bench.stages")
	body, err := newBody(topic, DefaultSpec().Payload)
	if err != nil {
		b.Fatal(err)
	}
	data := body.write(nil, 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := topic.Decode(topic.SubjectOf(nats.Updated), data); err != nil {
			b.Fatal(err)
		}
	}
}
