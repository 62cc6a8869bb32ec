package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// DefaultAckWait is the default of Config.AckWait.
	DefaultAckWait = 30 * time.Second
	// DefaultMaxAckPending is the default of Config.MaxAckPending.
	DefaultMaxAckPending = 1000
	// DefaultStartTimeout is the default of Config.StartTimeout.
	DefaultStartTimeout = 30 * time.Second
	// DefaultMaxAge is how long a stream that this module makes keeps messages.
	DefaultMaxAge = 7 * 24 * time.Hour
	// DefaultDuplicates is the duplicate window of a stream that this module makes.
	DefaultDuplicates = 2 * time.Minute
)

// Config says what to consume.
type Config struct {
	// Subjects are what is consumed, filtered by the server. At least one; they must not overlap.
	Subjects []string
	// Durable is the name of the durable consumer. Replicas that use the same name share its messages.
	Durable string
	// Stream is the stream to provision. Its zero value means the stream that already holds Covers,
	// and if there is none, one made with [StreamConfig]. An existing stream is never changed.
	Stream jetstream.StreamConfig
	// Covers are the subjects the stream must hold, all of them. Default: Subjects.
	Covers []string
	// Root is what a stream made for want of one holds, for example "orders.>". Default: the first of
	// Covers.
	Root string
	// Bind uses the stream and the durable as they are: nothing is created, nothing changed. A durable
	// that does not ack each message by itself is refused even so.
	Bind bool
	// AckWait is how long the server waits for a heartbeat or verdict before it hands a message out
	// again. Default: 30 seconds. An existing durable is updated to it.
	AckWait time.Duration
	// MaxAckPending is how many messages may be unsettled at once, over all replicas; it bounds memory.
	// Default: 1000. An existing durable is updated to it.
	MaxAckPending int
	// DeliverPolicy says where a durable that does not exist yet begins. Default: with the oldest
	// message of the stream. It is not compared with that of an existing durable.
	DeliverPolicy jetstream.DeliverPolicy
	// Owner is kept in the durable's metadata; a durable whose metadata has another value for one of
	// its keys belongs to somebody else and is refused.
	Owner map[string]string
	// Metadata is kept in the durable's metadata for whoever looks there; it is not compared.
	Metadata map[string]string
	// InactiveThreshold lets the server delete the durable when nobody has used it for that long.
	// Default: 0, never. It matters when the durable is made.
	InactiveThreshold time.Duration
	// HoldLimit is how long one message may be held before it is given back, however alive its work
	// looks. Default: 0, no limit.
	HoldLimit time.Duration
	// StartTimeout bounds how long Open waits for a server that is not there yet. Default: 30 seconds.
	StartTimeout time.Duration
	// Logger is where it logs. Default: slog.Default().
	Logger *slog.Logger
}

// complete checks c and fills in its defaults.
func (c *Config) complete() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Subjects) == 0 {
		bad("no subjects to consume")
	}
	for i, a := range c.Subjects {
		for _, b := range c.Subjects[:i] {
			if overlap(a, b) {
				bad("subjects %q and %q overlap", b, a)
			}
		}
	}
	if err := CheckName(c.Durable); err != nil {
		bad("durable name %w", err)
	}
	if c.AckWait < 0 || c.AckWait > 0 && c.AckWait < 30*time.Millisecond {
		bad("AckWait %v: less than 30ms leaves no time for heartbeats", c.AckWait)
	}
	if c.MaxAckPending < 0 {
		bad("MaxAckPending %d: it cannot be unlimited, since it bounds memory", c.MaxAckPending)
	}
	if c.HoldLimit < 0 {
		bad("hold limit %v is negative", c.HoldLimit)
	}
	switch c.DeliverPolicy {
	case jetstream.DeliverByStartSequencePolicy, jetstream.DeliverByStartTimePolicy:
		bad("DeliverPolicy %v needs a start: create the durable yourself and use Bind", c.DeliverPolicy)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if len(c.Covers) == 0 {
		c.Covers = c.Subjects
	}
	setDefault(&c.Root, c.Covers[0])
	setDefault(&c.AckWait, DefaultAckWait)
	setDefault(&c.MaxAckPending, DefaultMaxAckPending)
	setDefault(&c.StartTimeout, DefaultStartTimeout)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// CheckName reports what is wrong with the name of a stream or a durable.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > 255:
		return fmt.Errorf("%.20q… is longer than 255 bytes", name)
	case strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(`.*>/\`, r)
	}):
		return fmt.Errorf(`%q has a blank, control character or one of . * > / \ in it`, name)
	}
	return nil
}
