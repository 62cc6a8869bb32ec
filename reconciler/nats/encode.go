package nats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Encode returns the event's JSON, as it is published on [Topic.SubjectOf] its kind. What Encode
// returns, [Topic.Decode] accepts: an unusable topic, an unknown kind, a missing Old or New and a value
// that encoding/json refuses are errors, and so is a key, an Old or a New that encodes to JSON's
// null (a nil map for T, say), because a reader cannot tell it from one that is missing.
func (t Topic[K, T]) Encode(event Event[K, T]) ([]byte, error) {
	data, err := t.encode(&event)
	if err != nil {
		return nil, fmt.Errorf("encoding the event for %q: %w", t.SubjectOf(event.Kind), err)
	}
	return data, nil
}

func (t Topic[K, T]) encode(event *Event[K, T]) ([]byte, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	if err := event.complete(); err != nil {
		return nil, err
	}
	// Field by field, because that shows which one encodes to null without a second look at the bytes.
	var o object
	o.field("kind", event.Kind)
	o.field("key", &event.Key)
	if event.Old != nil {
		o.field("old", event.Old)
	}
	if event.New != nil {
		o.field("new", event.New)
	}
	return o.close()
}

// object writes a JSON object whose fields are all present: none of them may be null.
type object struct {
	buf bytes.Buffer
	enc *json.Encoder
	err error
}

func (o *object) field(name string, value any) {
	if o.err != nil {
		return
	}
	if o.enc == nil {
		o.enc = json.NewEncoder(&o.buf)
		o.buf.WriteByte('{')
	} else {
		o.buf.WriteByte(',')
	}
	o.buf.WriteString(`"` + name + `":`)
	start := o.buf.Len()
	if err := o.enc.Encode(value); err != nil {
		o.err = fmt.Errorf("its %s: %w", name, err)
		return
	}
	o.buf.Truncate(o.buf.Len() - 1) // the newline that an Encoder ends each value with
	if bytes.Equal(o.buf.Bytes()[start:], []byte("null")) {
		o.err = fmt.Errorf("its %s: %w", name, errNull)
	}
}

func (o *object) close() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	o.buf.WriteByte('}')
	return o.buf.Bytes(), nil
}

var errNull = errors.New("it encodes to JSON's null, which no reader can tell from a missing one")
