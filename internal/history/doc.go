// Package history keeps one record of everything that happened to a durable and to those who consume
// it, and decides from that record alone whether the rules were kept.
//
//	publisher ──── Publish ──────┐
//	the wire ───── Delivery ─────┤
//	               Signal        │             ┌─▶ Violations, each with the messages it is about
//	               Answer        ├─▶ History ──┤
//	               Letter        │   Check     └─▶ Figures
//	each replica ─ Mapping ──────┤
//	               Attempt       │
//	faults ─────── Wipe, Pause … │
//	the end ────── Final ────────┘
//
// A replica is one process: one that is killed and started again is another replica. A message is known
// by its stream sequence and the time it was stored, since a stream made anew counts from 1 again.
//
// # The rules
//
//   - S1: no ack without, for each request that the message owes, a successful attempt of the same replica
//     that began after the replica had mapped the message and ended before the ack.
//   - S3: one verdict for a message from one replica, repeated only while it is unconfirmed or for a further
//     copy, and always the same.
//   - S4: a copy of a message that a replica holds, or has decided, is not mapped again.
//   - S7: no ack for what nobody can decode.
//   - S8: no term before its dead letter was confirmed.
//   - S10: whoever waits for an event is told that it is reconciled only once it is.
//   - L1: heartbeats for everything that is held, in every round, and none after the verdict.
//   - L4: no verdict on a message of a stream that is gone, by a replica that has seen the next.
//   - L5: no nak after the verdict, nor after the lease has lapsed.
//   - T2: every event that was published and confirmed is in the stream at the end, has a verdict, and each
//     request it owes was reconciled by an attempt that began after the publish did and saw the change;
//     unless the stream was purged or deleted since the publish began. Of what was, everything below the
//     ack floor at that time has a verdict.
//   - Engine: no request has two attempts at once in one replica.
//   - Idle: nothing is pending or unacknowledged at the end.
//
// # Why the judgement is sound
//
// All times are on one clock, which never steps and which every process of the machine reads alike. What
// is recorded is recorded on the safe side of what happened:
//
//   - A publish's Begin is read before it is sent, hence before the event is stored.
//   - A delivery's At is read before it is handed to the replica, and a signal's after the replica sent
//     it. So the replica had received, by the time of a signal, every delivery that caused it.
//   - A mapping's End is read by the mapper before it returns, hence before what the message owes is
//     registered. An attempt's Begin is read by the reconcile function after the attempt has begun for
//     the tracker. So an attempt whose Begin is before that End did begin before the registration.
//   - An attempt's End is read before the reconcile function returns, hence before any ack it causes is
//     sent; and its record is written before too, so that a kill loses none that caused an ack.
//
// Each rule is judged such that these errors can hide a violation but never make one up. Where a
// delay of the recording itself could, as in L5, [History.Slack] is allowed for it.
package history
