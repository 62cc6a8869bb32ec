// Package queue holds the two things that stand between a controller's sources and its workers: the
// work queue ([Queue]: client-go's, with event requests ahead of resync requests) and the account of
// what each request owes ([Tracker]). It knows neither NATS nor Kubernetes.
//
//	message ──Register──▶ owes {a, b}          a message owes the requests it was mapped to
//	                        │
//	         Begin(a) ──────┤ snapshot: all that owes a and was registered before now
//	         End(success) ──┘ a is settled for the snapshot, and only for it
//	                          nothing owed any more ──▶ Message.Settled, once
//
// # Invariants of the Tracker
//
//  1. A registered message is in exactly one of three states: owed, settled, forgotten. It leaves owed
//     once and never returns to it.
//  2. Settled is called exactly once for a message that becomes settled, and never for one that was
//     forgotten.
//  3. A request leaves what a message owes only by a successful attempt on that request which began
//     after the message was registered and, once its [Group] was stopped, before the stop; by being
//     buried after it died; or, with Supersede, because newer messages owe all that is left.
//  4. An attempt that fails, panics, is cut short or is unfinished takes nothing from what is owed.
//  5. A request that died is reported once per message, is no longer affected by attempts, and keeps
//     its message owed until it is buried.
//  6. The Tracker holds memory for what is owed and for running attempts, and for nothing else.
//
// The tests check them against a model of a few sets, with random registrations, overlapping attempts,
// failures, panics, redeliveries and stops.
package queue
