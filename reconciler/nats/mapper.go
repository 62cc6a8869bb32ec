package nats

import "context"

// Mapper returns the requests that an event concerns; none is fine, and duplicates are. The context is
// the one its source was started with and ends when the source stops. The event belongs to the
// mapper, which may keep and change it.
//
// Mappers run one event at a time for each source, so a slow one delays the events behind it.
type Mapper[K comparable, T any, request any] func(ctx context.Context, event Event[K, T]) []request

// byKey requests the resource itself.
func byKey[K comparable, T any](_ context.Context, event Event[K, T]) []K {
	return []K{event.Key}
}
