package nats

import (
	"errors"
	"fmt"
	"slices"
)

// Filters decides which events of a topic reach the mapper. It is for the authors of sources, who
// fill it from methods like [Source.OnCreate]; whoever uses a source calls those. The zero value
// passes every event.
//
// Once events are filtered, the fields must not change; the methods may be called from any goroutine.
type Filters[K comparable, T any] struct {
	// Create, Update and Delete pass the events of their kind for which they return true; nil passes
	// all of them.
	Create func(created T) bool
	Update func(old, updated T) bool
	Delete func(old T) bool
	// Ignored are the kinds of which no event passes.
	Ignored []EventKind
}

// Validate reports that Ignored names a kind there is none of, or leaves no kind at all.
func (f *Filters[K, T]) Validate() error {
	for _, kind := range f.Ignored {
		if !kind.known() {
			return fmt.Errorf("Ignore(%q): there is no such kind of event; there are %q", kind, kinds)
		}
	}
	if len(f.Kinds()) == 0 {
		return errors.New("Ignore leaves no kind of event to watch; remove one of them or the source")
	}
	return nil
}

// Kinds are the kinds that are not ignored, in the order Created, Updated, Deleted. Only their
// subjects need to be subscribed to.
func (f *Filters[K, T]) Kinds() []EventKind {
	left := make([]EventKind, 0, len(kinds))
	for _, kind := range kinds {
		if !slices.Contains(f.Ignored, kind) {
			left = append(left, kind)
		}
	}
	return left
}

// Pass reports whether the event goes to the mapper. The event must be one that [Topic.Decode]
// accepted: Old and New are read as its kind promises them. A panic of the user's function is the
// caller's to recover.
func (f *Filters[K, T]) Pass(event Event[K, T]) bool {
	if len(f.Ignored) > 0 && slices.Contains(f.Ignored, event.Kind) {
		return false
	}
	switch event.Kind {
	case Created:
		return f.Create == nil || f.Create(*event.New)
	case Updated:
		return f.Update == nil || f.Update(*event.Old, *event.New)
	case Deleted:
		return f.Delete == nil || f.Delete(*event.Old)
	}
	return false
}
