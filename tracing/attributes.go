package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// What the messaging conventions have no name for.
const (
	streamKey        = attribute.Key("jsource.stream")
	sequenceKey      = attribute.Key("jsource.stream.sequence")
	storedKey        = attribute.Key("jsource.stored")
	duplicateKey     = attribute.Key("jsource.duplicate")
	deliveryCountKey = attribute.Key("jsource.delivery.count")
	controllerKey    = attribute.Key("jsource.controller")
	settlementKey    = attribute.Key("jsource.settlement")
	owedKey          = attribute.Key("jsource.owed")
	causeKey         = attribute.Key("jsource.cause")
	attemptKey       = attribute.Key("jsource.attempt")
	outcomeKey       = attribute.Key("jsource.outcome")
	linksDroppedKey  = attribute.Key("jsource.links.dropped")
)

// systemNATS is not among the systems that the conventions list, but they allow others.
var systemNATS = semconv.MessagingSystemKey.String("nats")

// attributes collects a span's attributes and leaves out what is not known.
type attributes []attribute.KeyValue

func (a *attributes) add(kv attribute.KeyValue) { *a = append(*a, kv) }

func (a *attributes) text(key attribute.Key, value string) {
	if value != "" {
		a.add(key.String(value))
	}
}
