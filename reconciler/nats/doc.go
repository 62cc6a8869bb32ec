// Package nats carries changes of one kind of resource over core NATS: the [Topic] they are published
// on, the [Event] that is one change, and the [Source] that turns events into a controller's requests.
//
//	PublishCreated ─▶ <prefix>.created ─┐
//	PublishUpdated ─▶ <prefix>.updated ─┼─▶ decode ─▶ filters ─▶ mapper ─▶ requests
//	PublishDeleted ─▶ <prefix>.deleted ─┘
//
// # No durability
//
// The Source of this package is fire and forget, as core NATS is. An event published while no
// subscriber is connected is gone: while the controller restarts, while the connection is down, and
// while a slow controller lets the subscription's buffer overflow. An event whose mapper panics, or
// that cannot be decoded, is logged and gone too, and so is one whose request was being worked on when
// the process died. Only a periodic re-list (package list) repairs that, as late as its period.
//
// Package jsource is the durable one. It takes the same arguments and has the same filters, so that
// nats.Mapped(...) becomes jsource.Mapped(...) and nothing else changes; a Topic, its events and
// its publishing calls are shared by both.
package nats
