// Package consumer is a durable JetStream pull consumer that holds messages for as long as their work
// takes and settles each exactly once. It knows messages, and nothing of what they mean.
//
//	          pull (no more than there is room for)
//	server ──────────────────────────────────────────▶ held ──▶ Handler.Handle
//	   ▲                                                │
//	   │  heartbeats, every third of AckWait ◀──────────┤
//	   │                                                ▼
//	   └── verdict: ack or term, repeated until ◀── Ack, Term      decided ──▶ confirmed: Handler.Ended
//	       the server has answered
//	   └── GiveBack: a nak, unless the lease lapsed                          ──▶ Handler.Ended
//
// # Rules it keeps
//
//   - A message gets one verdict, which is repeated until it is confirmed, within a bound, and nothing
//     else: never a nak afterwards (S3).
//   - On a single server one answer stands for all verdicts that were sent before it on the same connection, in a
//     cluster for one: there a change of leader can lose the first of several and answer the last.
//   - A further copy of a message that is held replaces the reply and is not handed out again; a copy of
//     one that was decided gets the verdict again at once (S4). A message is the same one only if its
//     stream sequence and the time it was stored are: a stream made anew counts from 1 again.
//   - Heartbeats start at receipt and stop at the verdict, from one goroutine, and survive failures of
//     their own (L1).
//   - A message whose lease may have lapsed is not given back: somebody else may be working on it (L5).
//   - What was lost is found again: see recovery (L4).
//
// # Recovery
//
// A deleted durable is made again, at the lowest sequence that may be unsettled; a stream made anew is
// consumed from its beginning, and all that was held from the old one is forgotten. A stream that is gone is
// made again if it is the one that this package would make; somebody else's is waited for. A pull that stays
// silent while messages are pending is made again. Until the durable was looked up after a disturbance no
// verdict is sent, since it might hit a message of the same number in another incarnation. What keeps going
// wrong is tried again at a slowing pace, logged once, and told by Healthy meanwhile.
package consumer
