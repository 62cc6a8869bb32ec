package tracing

import (
	"strings"

	"go.opentelemetry.io/otel/propagation"
)

// carrier is a message's headers as propagators see them. NATS headers are case-sensitive, and not every
// publisher spells them as the propagators do: a name is looked for as it is first, then in any case.
type carrier map[string][]string

var (
	_ propagation.TextMapCarrier = carrier{}
	_ propagation.ValuesGetter   = carrier{}
)

// Get returns the first value of key, "" if there is none.
func (c carrier) Get(key string) string {
	if values := c.Values(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Values returns the values of key. Of several spellings, none of them exact, the first in byte order
// counts, so that it is always the same one.
func (c carrier) Values(key string) []string {
	if values := c[key]; len(values) > 0 {
		return values
	}
	var (
		name  string
		found []string
	)
	for k, values := range c {
		if len(values) > 0 && len(k) == len(key) && strings.EqualFold(k, key) && (found == nil || k < name) {
			name, found = k, values
		}
	}
	return found
}

// Set stores value under exactly key. Other spellings go: a header that was copied from another message
// must not leave a second trace in this one.
func (c carrier) Set(key, value string) {
	for k := range c {
		if k != key && strings.EqualFold(k, key) {
			delete(c, k)
		}
	}
	c[key] = []string{value}
}

// Keys lists the names of the headers.
func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}
