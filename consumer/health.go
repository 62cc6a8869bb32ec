package consumer

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// Counts are what a Consumer has counted since it was opened.
type Counts struct {
	Received    uint64 // deliveries that arrived, copies included
	Redelivered uint64 // of those, with a delivery count above 1
	Absorbed    uint64 // copies of messages that were held
	Repeated    uint64 // copies of messages that were decided: they got the verdict again
	Acked       uint64 // confirmed acks
	Termed      uint64 // confirmed terms
	GivenBack   uint64 // messages given back or left to redelivery
	Forgotten   uint64 // messages of a stream that is gone
	Unconfirmed uint64 // verdicts that the server did not confirm within the bound
	Resent      uint64 // verdicts sent again because the answer was missing
	SendErrors  uint64 // settlements that the connection did not take
	Heartbeats  uint64
	Recoveries  uint64 // durables or streams made anew
}

// Status is how a Consumer is doing.
type Status struct {
	Stream        string
	Durable       string
	Counts        Counts
	Held          int       // messages held without a verdict
	Oldest        time.Time // when the oldest of them was stored; zero if none is held
	Unconfirmed   int       // verdicts and naks whose answer is awaited
	MaxAckPending int       // how many may be unsettled at once, over all replicas
	Pending       uint64    // messages not handed out yet, when the server was last asked
	AckPending    int       // messages unsettled in all replicas together, when the server was last asked
	AckFloor      uint64    // stream sequence up to which all is settled, when the server was last asked
	Err           error     // nil when it is consuming
}

// health is what is wrong, if anything is. The consumer's mu guards it.
type health struct {
	err     error
	pending uint64
	acks    int
}

// Status returns how the Consumer is doing.
func (c *Consumer) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{
		Stream: c.stream, Durable: c.durable.Durable, Counts: c.counts,
		Unconfirmed: len(c.unsent), MaxAckPending: c.durable.MaxAckPending,
		Pending: c.health.pending, AckPending: c.health.acks, AckFloor: c.floor, Err: c.health.err,
	}
	var oldest int64
	for _, m := range c.messages {
		if m.state == held {
			if s.Held++; s.Held == 1 || m.stored < oldest {
				oldest = m.stored
			}
		}
	}
	if s.Held > 0 {
		s.Oldest = time.Unix(0, oldest)
	}
	return s
}

// Stream is the name of the stream that is consumed.
func (c *Consumer) Stream() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream
}

// AckWait is how long the server waits for a heartbeat or verdict before it hands a message out again.
func (c *Consumer) AckWait() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ackWait()
}

// MaxAckPending is how many messages may be unsettled at once, over all replicas.
func (c *Consumer) MaxAckPending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.durable.MaxAckPending
}

// Healthy returns nil while the Consumer is consuming, and otherwise what is wrong.
func (c *Consumer) Healthy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.started:
		return errors.New("not started")
	case c.stopping:
		return errors.New("stopped")
	}
	return c.health.err
}

// setHealth notes what is wrong and logs it when it changes: once per state. While the connection is down
// nothing else is wrong.
func (c *Consumer) setHealth(err error) {
	c.mu.Lock()
	was := c.health.err
	if c.down && !errors.Is(err, errDown) && !errors.Is(err, nats.ErrConnectionClosed) {
		err = was
	}
	c.health.err = err
	c.mu.Unlock()
	switch {
	case err == nil && was != nil:
		c.log.Info("consuming again", "after", was)
	case err != nil && (was == nil || was.Error() != err.Error()):
		c.log.Error("not consuming: trying to recover", "error", err)
	}
}

// ails is setHealth unless something is known to be wrong already.
func (c *Consumer) ails(err error) {
	c.mu.Lock()
	healthy := c.health.err == nil
	c.mu.Unlock()
	if healthy {
		c.setHealth(err)
	}
}
