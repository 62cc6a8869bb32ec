package nats

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Topic is a subject tree that carries the changes of one kind of resource: one subject for each
// [EventKind], below a common prefix. K is the type of the resource's key, T of the resource. Declare
// it once, beside the store, and use it to publish as well as to watch.
//
// A Topic is a value without state: it may be copied, compared and used from any goroutine.
type Topic[K comparable, T any] struct {
	prefix string
}

// NewTopic returns the topic on the subjects <prefix>.created, <prefix>.updated and <prefix>.deleted.
// The prefix is one or more tokens separated by dots, such as "kargo.targets". A prefix that cannot
// be used (see [Topic.Validate]) is reported by whatever uses the topic first.
func NewTopic[K comparable, T any](prefix string) Topic[K, T] {
	return Topic[K, T]{prefix: prefix}
}

// Prefix is what NewTopic was given.
func (t Topic[K, T]) Prefix() string { return t.prefix }

// Subject matches all of the topic's events: "<prefix>.>".
func (t Topic[K, T]) Subject() string { return t.prefix + ".>" }

// SubjectOf is the subject that events of the given kind are published on: "<prefix>.<kind>".
func (t Topic[K, T]) SubjectOf(kind EventKind) string { return t.prefix + "." + string(kind) }

// Validate reports why the topic's prefix cannot be used, or nil. The prefix must be valid UTF-8
// without whitespace and control characters; it must not be empty, have an empty token (a dot at either
// end or two in a row), contain a wildcard (* or >) or begin with $, which NATS keeps for itself.
// Start of a source and the Publish methods return the same error, so nobody has to call Validate.
func (t Topic[K, T]) Validate() error {
	if why := unusable(t.prefix); why != "" {
		return fmt.Errorf("the prefix %q cannot be used for a topic: %s", t.prefix, why)
	}
	return nil
}

// unusable says why a prefix is, and nothing when it is not.
func unusable(prefix string) string {
	if prefix == "" {
		return `it is empty; give NewTopic one like "shop.orders"`
	}
	if prefix[0] == '$' {
		return "it begins with $, which NATS keeps for itself"
	}
	if !utf8.ValidString(prefix) {
		return "it is not valid UTF-8"
	}
	dot := true // before the first token
	for _, r := range prefix {
		switch {
		case r == '.' && dot:
			return "it has an empty token: remove the dot that is too many"
		case r == '*' || r == '>':
			return "it contains a wildcard; one topic carries one kind of resource"
		case unicode.IsSpace(r):
			return "it contains whitespace"
		case unicode.IsControl(r):
			return "it contains a control character"
		}
		dot = r == '.'
	}
	if dot {
		return "it ends with a dot"
	}
	return ""
}

// owns reports whether an event on a subject that matches Subject belongs to this topic: a topic whose
// prefix is longer ("shop.orders.lines" below "shop.orders") matches too, and is another one.
func (t Topic[K, T]) owns(subject string) bool {
	kind, ok := strings.CutPrefix(subject, t.prefix+".")
	return ok && !strings.Contains(kind, ".")
}
