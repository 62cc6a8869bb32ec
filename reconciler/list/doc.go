// Package list is the safety net below event sources: a source that lists all requests there are when
// the controller starts, and again every so often, in case an event was missed.
//
//	Start ─▶ list ─▶ push every request ─▶ wait ─┐
//	          ▲                                  │ Every has passed, the retry of a failed
//	          └──────────────────────────────────┘ list is due, or a list was asked for
//
// An event source of the same controller that had to recover, and may have missed events, asks for
// a list by reconciler.Handle.RequestResync; that one does not wait for the period. The requests of
// this source give way to those of event sources in the controller's queue.
//
// Give it to the controller after the event sources: they are subscribed then while it lists, and no
// change falls between the two.
package list
