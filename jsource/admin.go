package jsource

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Admin looks after what sources leave on a server, their durables and their dead letters, from any process.
// The command cmd/jsource is an Admin on the command line. It is safe for concurrent use.
type Admin struct {
	pub *Publisher
	js  jetstream.JetStream
}

// NewAdmin returns an Admin. It asks the server nothing yet. What replays publish goes through a [Publisher]
// with these options.
func NewAdmin(conn *natsgo.Conn, opts ...PublisherOption) (*Admin, error) {
	pub, err := NewPublisher(conn, opts...)
	if err != nil {
		return nil, err
	}
	return &Admin{pub: pub, js: pub.js}, nil
}

// ours yields the durables of the account that a Source made, in no particular order.
func (a *Admin) ours(ctx context.Context) iter.Seq2[*jetstream.ConsumerInfo, error] {
	return func(yield func(*jetstream.ConsumerInfo, error) bool) {
		names := a.js.StreamNames(ctx)
		for name := range names.Name() {
			stream, err := a.js.Stream(ctx, name)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				continue // deleted meanwhile
			}
			if err != nil {
				yield(nil, fmt.Errorf("looking up stream %q: %w", name, err))
				return
			}
			list := stream.ListConsumers(ctx)
			for info := range list.Info() {
				if info.Config.Metadata[metaTopic] != "" && !yield(info, nil) {
					return
				}
			}
			if err := list.Err(); err != nil {
				yield(nil, fmt.Errorf("listing the consumers of stream %q: %w", name, err))
				return
			}
		}
		if err := names.Err(); err != nil {
			yield(nil, fmt.Errorf("listing the streams: %w", err))
		}
	}
}

// cemetery is a stream that keeps dead letters, and what their subjects begin with.
type cemetery struct{ stream, prefix string }

// cemeteries finds the streams that keep dead letters: those on the default subjects, and those that a durable
// names.
func (a *Admin) cemeteries(ctx context.Context) ([]cemetery, error) {
	var found []cemetery
	add := func(tree, prefix string) error {
		list := a.js.StreamNames(ctx, jetstream.WithStreamListSubject(tree))
		for name := range list.Name() {
			if c := (cemetery{name, prefix}); !slices.Contains(found, c) {
				found = append(found, c)
			}
		}
		if err := list.Err(); err != nil {
			return fmt.Errorf("looking for streams on %q: %w", tree, err)
		}
		return nil
	}
	if err := add(defaultDeadPrefix+".>", defaultDeadPrefix); err != nil {
		return nil, err
	}
	for info, err := range a.ours(ctx) {
		if err != nil {
			return nil, err
		}
		if prefix := info.Config.Metadata[metaDead]; prefix != "" && prefix != defaultDeadPrefix {
			if err := add(deadTree(prefix, info.Stream), prefix); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(found, func(a, b cemetery) int { return strings.Compare(a.stream, b.stream) })
	return found, nil
}
