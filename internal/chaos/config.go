//go:build unix

package chaos

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// Kind is what a run stands on.
type Kind string

// The kinds of run.
const (
	Single  Kind = "single"  // one server
	Cluster Kind = "cluster" // three, and everything on all three
)

// Config is what a run is made of.
type Config struct {
	Kind     Kind
	Seed     uint64
	Duration time.Duration // of the faults; healing and waiting come on top
	// Every is the mean time from one fault to the next. Default: 700 milliseconds.
	Every time.Duration
	// Rate is the load in events a second. Default: 300 on one server, 150 on three.
	Rate float64
	// Keys is the number of keys. Default: 64.
	Keys int
	// AckWait is the durable's. Default: by the seed, 400 milliseconds to 2 seconds.
	AckWait time.Duration
	// MaxAckPending is the durable's. Default: by the seed, 16 to 512.
	MaxAckPending int
	// HoldLimit is the sources'; with one, a copy that is mapped twice goes unnoticed. Supersede and
	// MaxAttempts are theirs too. ByTheSeed sets all three: a fourth of the seeds have each.
	HoldLimit   time.Duration
	Supersede   bool
	MaxAttempts int
	ByTheSeed   bool
	// Garbage is how many events in ten thousand cannot be decoded. Each takes ten seconds to become a
	// dead letter. Default: 0.
	Garbage int
	// Patience bounds the wait until nothing is pending, after everything was healed. Default: 2 minutes.
	Patience time.Duration
	// Logs is a directory for what the replicas log. Empty: the end of it is kept and shown when one
	// dies by itself.
	Logs string
	// Out is where progress goes.
	Out io.Writer
}

func (c *Config) complete() error {
	setDefault(&c.Every, 700*time.Millisecond)
	setDefault(&c.Keys, 64)
	random := rand.New(rand.NewPCG(c.Seed, 0x636f6e666967))
	setDefault(&c.AckWait, time.Duration(400+random.IntN(1600))*time.Millisecond)
	setDefault(&c.MaxAckPending, 16<<random.IntN(6))
	if c.ByTheSeed {
		if random.IntN(4) == 0 {
			c.HoldLimit = 3 * c.AckWait
		}
		c.Supersede = random.IntN(4) == 0
		if random.IntN(4) == 0 {
			c.MaxAttempts = 3
		}
	}
	setDefault(&c.Patience, 2*time.Minute)
	setDefault[io.Writer](&c.Out, io.Discard)
	switch c.Kind {
	case Single:
		setDefault(&c.Rate, 300)
	case Cluster:
		setDefault(&c.Rate, 150)
	default:
		return fmt.Errorf("kind %q is neither %s nor %s", c.Kind, Single, Cluster)
	}
	if c.Rate <= 0 || c.Keys < publishers || c.Duration < 0 {
		return fmt.Errorf("a rate of %v events a second on %d keys for %v: the rate must be positive, the keys at least %d",
			c.Rate, c.Keys, c.Duration, publishers)
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// slack is what the history allows for delays of its record.
func (c *Config) slack() time.Duration { return max(time.Second, c.AckWait/2) }

// replicas is how many servers keep the stream.
func (c *Config) replicas() int {
	if c.Kind == Cluster {
		return 3
	}
	return 1
}
