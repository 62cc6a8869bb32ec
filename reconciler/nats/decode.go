package nats

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"

	fastjson "github.com/go-json-experiment/json/v1"
)

// Decode returns the event that a message's data holds, decoded as encoding/json does it and checked:
// the subject's last token must be a known kind and the kind in the JSON, the key must be there, and
// Old and New must be as the kind demands (see [Event]). Bytes after the JSON are an error.
//
// An error names the subject and says what is wrong with the event. It never quotes the data, wraps no
// error that could, and so may be logged and stored; an UnmarshalJSON or UnmarshalText that panics is
// such an error too. Decode keeps no reference to data.
//
// The decoder is the one that Go 1.27 made encoding/json's, at half the cost of that of Go 1.26. What it refuses
// encoding/json has the last word on.
func (t Topic[K, T]) Decode(subject string, data []byte) (event Event[K, T], err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("an UnmarshalJSON or UnmarshalText of its types panicked: " + panicText(p))
		}
		if err != nil {
			event, err = Event[K, T]{}, fmt.Errorf("decoding the event on %q: %w", subject, err)
		}
	}()

	kind := EventKind(subject[strings.LastIndexByte(subject, '.')+1:])
	if !kind.known() {
		return event, errors.New(`the subject's last token is none of "created", "updated" and "deleted"`)
	}
	var w wire[K, T]
	if fastjson.Unmarshal(data, &w) != nil {
		w = wire[K, T]{}
		if err := json.Unmarshal(data, &w); err != nil {
			return event, errors.New(withoutPayload[K, T](err, data))
		}
	}
	switch {
	case w.Kind == "":
		return event, errors.New(`its JSON has no "kind"`)
	case !w.Kind.known():
		return event, fmt.Errorf(`the kind in its JSON is unknown; the subject says %q`, kind)
	case w.Kind != kind:
		return event, fmt.Errorf("the kind in its JSON is %q, the subject says %q", w.Kind, kind)
	case w.Key == nil:
		return event, errors.New(`it has no "key"`)
	}
	event = Event[K, T]{Kind: w.Kind, Key: *w.Key, Old: w.Old, New: w.New}
	return event, event.complete()
}

// wire is an Event on its way in: Key is a pointer so that one that is missing shows, instead of passing
// for the zero key, which may well be that of another resource.
type wire[K comparable, T any] struct {
	Kind EventKind `json:"kind"`
	Key  *K        `json:"key"`
	Old  *T        `json:"old"`
	New  *T        `json:"new"`
}

// withoutPayload says what err says except for what it may quote from data. That rules out its
// text as a whole: encoding/json quotes characters and numbers, and what a type's own UnmarshalJSON
// quotes nobody knows.
func withoutPayload[K comparable, T any](err error, data []byte) string {
	switch err := err.(type) { //nolint:errorlint // what encoding/json returns itself, not what it wraps
	case *json.SyntaxError:
		if !json.Valid(data) {
			return fmt.Sprintf("it is not valid JSON, or more than one JSON value, at byte %d of %d",
				err.Offset, len(data))
		}
	case *json.UnmarshalTypeError:
		return fmt.Sprintf("its JSON does not fit the topic's types: %s%s where Go has %s (at byte %d of %d); "+
			"does its publisher use another version of them?", shape(err.Value), at(err.Field), err.Type,
			err.Offset, len(data))
	}
	return fmt.Sprintf("its JSON does not fit the topic's types: an UnmarshalJSON or UnmarshalText in its %s "+
		"failed with a %T", culprit[K, T](data), err)
}

// shape is the kind of JSON value an UnmarshalTypeError speaks of, without the value.
func shape(value string) string {
	word, _, _ := strings.Cut(value, " ")
	switch word {
	case "string", "number", "bool", "array", "object":
		return word
	}
	return "a value"
}

func at(field string) string {
	if field == "" {
		return ""
	}
	return " at " + field
}

// culprit names the part of the event that cannot be decoded. Only an event that failed pays for it.
func culprit[K comparable, T any](data []byte) string {
	var parts struct{ Key, Old, New json.RawMessage }
	if json.Unmarshal(data, &parts) != nil {
		return "kind"
	}
	switch {
	case len(parts.Key) > 0 && json.Unmarshal(parts.Key, new(K)) != nil:
		return "key"
	case len(parts.Old) > 0 && json.Unmarshal(parts.Old, new(T)) != nil:
		return "old"
	case len(parts.New) > 0 && json.Unmarshal(parts.New, new(T)) != nil:
		return "new"
	}
	return "JSON"
}

// panicText describes a panic without the payload: the runtime's own panics quote indexes and
// types at most, any other value could be anything.
func panicText(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("a %T", p)
}
