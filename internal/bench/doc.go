// Package bench measures what consumes the events of a topic: the sources of this module and, in
// bench/peers, what people would use instead. It is the inside of the command bench.
//
//	           ┌── stored first, or a core-NATS load that waits for the consumer (as fast as it goes)
//	load ──────┤
//	   │       └── open loop: each event has its time, however late the one before it was
//	   ▼
//	NATS servers ──▶ Contender ──▶ Probe ──▶ Result ──▶ table, JSON, plots
//	   │ in this process or in one of its own, one or three                ▲
//	   └───────────── consumer info, acks as they arrive ──────────────────┘
//
// Every run has servers, a stream and connections of its own. The contender's connection goes through a
// dialer that counts its bytes and can be cut.
package bench
