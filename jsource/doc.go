// Package jsource makes the event sources of a level-triggered controller durable.
//
// A core-NATS source loses what is published while the controller is down. A [Source] of this package is
// a durable JetStream consumer: a message is acknowledged only after every request it was mapped to has
// been reconciled successfully, by an attempt that began after the message arrived. Whatever goes wrong
// in between (a crash, a failing reconcile, a lost connection, a lost acknowledgement) ends in
// redelivery.
//
//	publisher ─▶ stream ─▶ consumer ─▶ decode, filter, map ─▶ queue.Tracker ─▶ work queue ─▶ Reconcile
//	                          ▲                                   │ nothing owed any more        │
//	                          └──────────── ack, confirmed ◀──────┴──────────────────────────────┘
//
// It takes the same arguments as the core-NATS source of reconciler/nats:
//
//	nats.Mapped(conn, topic, mapper).OnUpdate(changed)      // before
//	jsource.Mapped(conn, topic, mapper).OnUpdate(changed)   // after
//
// What it promises: every event that a stream has confirmed is reconciled, at least once, by an attempt
// that began after the event was stored; and each message gets one verdict, which the server has
// confirmed. What it does not: reconciles are not exactly-once (nor need they be), an event that was
// committed and never published is not seen, and a stream loses what JetStream loses.
//
// # Defaults
//
// A topic that no stream holds gets one, from whoever comes first, source or [Publisher]: file storage,
// kept by limits, 7 days, a duplicate window of 2 minutes, one replica (see [consumer.StreamConfig]). The
// durable is named after the controller and the topic. Messages that can never be reconciled are kept as
// dead letters in a stream of their own, for 30 days or 1 GiB.
package jsource
