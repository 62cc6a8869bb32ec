// Package natstest is what this module's tests stand on: real nats-servers inside the test process,
// the ways to make them and the network fail, and independent witnesses of what went over the wire.
//
//	             ┌───────── Proxy ─────────┐
//	code under ──┤ Stall Resume Cut Refuse ├──► Server / Cluster   (Stop, Restart, Partition, Heal)
//	test         └─────────────────────────┘        │
//	                                                ├──► Witness      every ack, nak, term, heartbeat
//	             InjectStatus ──► pull's inbox ◄────┼──► PullWatch    every pull request
//	                                                └──► Advisories   what the server says of its consumers
//
// Everything takes a [testing.TB], fails the test on any error of its own and is gone at its cleanup:
// a package that uses [Main] proves that no goroutine was left behind. Nothing here sleeps to "give it
// time": waits name a condition ([Eventually], [Until], [Witness.WaitFor]) and fail with that name.
//
// # Two effects to keep in mind
//
// A witness is a subscriber, so it is interest. While a [Witness] or a [PullWatch] stands, a
// settlement or a pull sent to a consumer that does not exist is no longer answered with "no
// responders": it times out. Where a test is about that answer, use [Proxy.Watch] and [Proxy.Pulls],
// which read the same from the bytes that pass the proxy, and which also miss nothing while the
// server restarts.
//
// A witness on a connection that is itself disconnected sees nothing. After a server's restart the
// code under test may reconnect first; hold it off with [Proxy.Refuse] until the witness is back, or
// watch at the proxy.
package natstest
