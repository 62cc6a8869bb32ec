package nats

import "errors"

// Event is one change of one resource: K is the type of the resource's key, T of the resource.
//
// An event that [Topic.Decode] returned, and therefore every event that a mapper or filter is handed,
// has Old and New as its Kind demands:
//
//	Created  New
//	Updated  Old and New
//	Deleted  Old
type Event[K comparable, T any] struct {
	Kind EventKind `json:"kind"`
	Key  K         `json:"key"`
	Old  *T        `json:"old,omitempty"` // before the change
	New  *T        `json:"new,omitempty"` // after it
}

// complete reports what the event lacks for its kind.
func (e *Event[K, T]) complete() error {
	switch {
	case !e.Kind.known():
		return errors.New(`its kind is none of "created", "updated" and "deleted"`)
	case e.Kind != Created && e.Old == nil:
		return errors.New(`it has no "old", the resource before the change`)
	case e.Kind != Deleted && e.New == nil:
		return errors.New(`it has no "new", the resource after the change`)
	}
	return nil
}
