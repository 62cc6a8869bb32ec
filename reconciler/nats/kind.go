package nats

// EventKind says what happened to a resource. It is the last token of the subject its event is
// published on, and the "kind" in the event's JSON.
type EventKind string

const (
	// Created is the kind of an event that carries a new resource.
	Created EventKind = "created"
	// Updated is the kind of an event that carries a resource before and after a change.
	Updated EventKind = "updated"
	// Deleted is the kind of an event that carries the last state of a resource that is gone.
	Deleted EventKind = "deleted"
)

// kinds are all there are, in the order of a resource's life.
var kinds = [...]EventKind{Created, Updated, Deleted}

func (k EventKind) known() bool {
	return k == Created || k == Updated || k == Deleted
}
