// Package tracing gives a message its spans: from the publisher through the delivery to the attempts
// that reconcile what it was mapped to, and back. It knows OpenTelemetry and the shape of the spans,
// neither NATS nor the queue.
//
//	publisher's trace                                another publisher's trace
//	─────────────────                                ─────────────────────────
//	send orders           PRODUCER                   send orders
//	└─ process orders     CONSUMER ◀──────┐          └─ process orders ◀────┐
//	   │                                  │                                 │
//	   │                                link                              link
//	   │                                  │                                 │
//	   └─ reconcile invoices  INTERNAL ◀──┴─────────────────────────────────┘
//
// A process span lasts from the receipt of one delivery to its settlement; a redelivery gets a span of
// its own. A reconcile span is one attempt. It is a child of the oldest delivery it covers, so that this
// trace shows the worst latency end to end, and is linked with each of them, both ways: Jaeger cannot
// follow a link backwards. An attempt that no message caused is a root span that says what did.
//
// The context that [StartProcess] and [StartAttempt] return carries the span: what a mapper or a
// reconciler starts with it are children.
//
// # What is not sampled costs nothing
//
// When the publisher's trace is not sampled, its message has no span, and an attempt that covers only
// such messages has none either. Their contexts carry the publisher's trace all the same, so that
// whatever is published onwards stays in it.
//
// With no tracer provider set up (see [Enabled]) there are no spans, and nothing here allocates memory;
// [Inject] still passes on a trace that the context is in. A provider that is set later is noticed.
//
// # Attributes
//
// Where OpenTelemetry's messaging conventions have a name, it is used. The others are:
//
//	jsource.stream            stream of the message
//	jsource.stream.sequence   its sequence there
//	jsource.stored            when the stream stored it, by the server's clock, in RFC 3339 (process)
//	jsource.duplicate         the stream had the message already (send)
//	jsource.delivery.count    how often it was handed out, this delivery included
//	jsource.controller        controller that works on it
//	jsource.settlement        how the delivery ended: ack, term, given_back, forgotten, unconfirmed
//	jsource.owed              process: requests the message owed; reconcile: messages the attempt covers
//	jsource.cause             what asked for the attempt: message, event, requeue, resync, low priority
//	jsource.attempt           its number, from 1, since the request last succeeded
//	jsource.outcome           what it meant: success, unfinished, failed, cut or dead
//	jsource.links.dropped     deliveries that a reconcile span has no link to, because they are too many
package tracing
