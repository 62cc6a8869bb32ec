package nats

import (
	"errors"
	"fmt"
)

// Publisher sends data to a subject. A *nats.Conn of nats.go is one, and so is package jsource's
// Publisher, which returns only when the stream has stored the message.
//
// A Publisher may keep data after Publish returned; it must not change it.
type Publisher interface {
	Publish(subject string, data []byte) error
}

// PublishCreated publishes that the resource with the given key was created. Call it after the change
// is committed. A nil error means what it means for pub: for a *nats.Conn, that the event is in its
// buffer. The other errors are those of [Topic.Encode]. It may be called from any goroutine if
// pub's Publish may be.
func (t Topic[K, T]) PublishCreated(pub Publisher, key K, created T) error {
	return t.publish(pub, Event[K, T]{Kind: Created, Key: key, New: &created})
}

// PublishUpdated publishes that the resource with the given key was changed from old to updated. See
// [Topic.PublishCreated].
func (t Topic[K, T]) PublishUpdated(pub Publisher, key K, old, updated T) error {
	return t.publish(pub, Event[K, T]{Kind: Updated, Key: key, Old: &old, New: &updated})
}

// PublishDeleted publishes that the resource with the given key, which was old, is gone. See
// [Topic.PublishCreated].
func (t Topic[K, T]) PublishDeleted(pub Publisher, key K, old T) error {
	return t.publish(pub, Event[K, T]{Kind: Deleted, Key: key, Old: &old})
}

func (t Topic[K, T]) publish(pub Publisher, event Event[K, T]) error {
	if pub == nil {
		return fmt.Errorf("publishing on %q: %w", t.SubjectOf(event.Kind), errNoPublisher)
	}
	data, err := t.Encode(event)
	if err != nil {
		return err
	}
	subject := t.SubjectOf(event.Kind)
	if err := pub.Publish(subject, data); err != nil {
		return fmt.Errorf("publishing an event of %d bytes on %q: %w", len(data), subject, err)
	}
	return nil
}

var errNoPublisher = errors.New("the publisher is nil; give it a connected *nats.Conn")
