package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// pollEvery is how often the durable is looked up when nothing is wrong.
	pollEvery = 5 * time.Second
	// lookUpTimeout bounds one look-up or repair.
	lookUpTimeout = 5 * time.Second
	// A recovery that fails is tried again after recoverFirst, then twice that, up to recoverMost.
	recoverFirst = 50 * time.Millisecond
	recoverMost  = 5 * time.Second
)

// call asks for the durable to be looked up soon.
func (c *Consumer) call(reason string) {
	select {
	case c.doctor <- reason:
	default: // somebody has called already
	}
}

// suspectNow holds verdicts and pulls back until the durable was looked up: it may be gone, or be another
// one by now.
func (c *Consumer) suspectNow(reason string) {
	c.mu.Lock()
	c.suspect = true
	c.pull.paused = true
	c.mu.Unlock()
	c.call(reason)
}

// attend is the goroutine that looks the durable up, when something seems wrong and from time to time, and
// repairs what it can.
func (c *Consumer) attend() {
	status := c.conn.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CONNECTED, nats.CLOSED)
	defer c.conn.RemoveStatusListener(status)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-c.stop:
			cancel()
		case <-ctx.Done():
		}
	}()

	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	backoff := recoverFirst
	arrives := uint64(0)
	for {
		reason := ""
		select {
		case <-c.stop:
			return
		case s, ok := <-status:
			if !ok {
				status = nil // the connection is closed for good
				c.setHealth(nats.ErrConnectionClosed)
				continue
			}
			c.connection(s)
			if s != nats.CONNECTED {
				continue
			}
			reason, backoff = "reconnected", recoverFirst
		case reason = <-c.doctor:
		case <-timer.C:
		}
		err := c.lookUp(ctx, reason, &arrives)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.setHealth(err)
			timer.Reset(backoff)
			backoff = min(2*backoff, recoverMost)
		default:
			c.setHealth(nil)
			backoff = recoverFirst
			timer.Reset(pollEvery)
			c.refill()
		}
	}
}

// connection takes in that the connection was lost or is back.
func (c *Consumer) connection(s nats.Status) {
	c.mu.Lock()
	c.suspect, c.pull.paused, c.pull.asked = true, true, 0
	c.lease.interrupted(c.now())
	c.mu.Unlock()
	if s != nats.CONNECTED {
		c.setHealth(fmt.Errorf("the connection to NATS is %s", s))
	}
}

// lookUp asks the server for the durable and takes in what it says; what is gone is made anew.
func (c *Consumer) lookUp(ctx context.Context, reason string, arrives *uint64) error {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	info, err := c.consumerInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		c.mu.Lock()
		c.suspect, c.pull.paused = true, true
		c.mu.Unlock()
		c.setHealth(fmt.Errorf("the durable is gone: %w", err))
		return c.remake(ctx)
	case err != nil:
		return fmt.Errorf("looking up durable %q of stream %q: %w", c.cfg.Durable, c.stream, err)
	case !info.Created.Equal(c.durableMade):
		return c.adopt(ctx, info)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cleared(info)
	stuck := info.NumPending > 0 && info.NumAckPending < info.Config.MaxAckPending &&
		c.pull.arrives == *arrives && c.pull.asked > 0 && reason == ""
	if stuck {
		// Messages wait, nobody is busy with as many as are allowed, and our pull got none of them
		// since the last look.
		c.log.Warn("messages are pending but none arrive: pulling anew", "pending", info.NumPending)
		c.pull.asked = 0
	}
	*arrives = c.pull.arrives
	return nil
}

// cleared takes in what the server says of the durable, which is the one it was before: verdicts that
// waited for this can be sent. The caller holds mu.
func (c *Consumer) cleared(info *jetstream.ConsumerInfo) {
	c.use(info.Config)
	c.health.pending, c.health.acks = info.NumPending, info.NumAckPending
	c.floor = info.AckFloor.Stream
	c.decided.prune(c.floor)
	c.pull.limit = min(c.pull.limit, c.durable.MaxAckPending)
	c.pull.paused = false
	if !c.suspect {
		return
	}
	c.suspect = false
	now := c.now()
	for _, m := range c.unsent {
		if m.state == decided {
			c.send(m, now)
		}
	}
}

// adopt goes on with a durable of our name that is not the one we had: somebody has made it anew.
func (c *Consumer) adopt(ctx context.Context, info *jetstream.ConsumerInfo) error {
	stream, err := c.js.Stream(ctx, c.stream)
	if err != nil {
		return fmt.Errorf("looking up stream %q: %w", c.stream, err)
	}
	if info, err = c.checkDurable(ctx, info); err != nil {
		return err
	}
	created := stream.CachedInfo().Created
	c.mu.Lock()
	if !created.Equal(c.streamCreated) {
		c.forgetAll("the stream was made anew")
		c.streamCreated = created
	}
	c.anew(info)
	c.mu.Unlock()
	c.recovered("the durable was made anew")
	return nil
}

// remake makes the durable anew after it was found to be gone, and the stream as well if that is gone.
func (c *Consumer) remake(ctx context.Context) error {
	if c.cfg.Bind {
		return fmt.Errorf("durable %q of stream %q is gone, and Bind forbids to make it anew: "+
			"create it", c.cfg.Durable, c.stream)
	}
	stream, err := c.js.Stream(ctx, c.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = c.provisionStream(ctx)
	}
	if err != nil {
		return fmt.Errorf("looking up stream %q: %w", c.stream, err)
	}
	sinfo := stream.CachedInfo()
	c.mu.Lock()
	if sinfo.Config.Name != c.stream || !sinfo.Created.Equal(c.streamCreated) {
		c.forgetAll("the stream was made anew")
		c.stream, c.streamCreated, c.floor = sinfo.Config.Name, sinfo.Created, 0
	}
	start := c.floor + 1
	for seq, m := range c.messages {
		if m.state == held || m.state == decided {
			start = min(start, seq)
		}
	}
	c.mu.Unlock()

	cfg := c.wantedDurable()
	cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, start
	cons, err := stream.CreateConsumer(ctx, cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		// Another replica was faster.
		cons, err = stream.Consumer(ctx, c.cfg.Durable)
	}
	if err != nil {
		return fmt.Errorf("making durable %q of stream %q anew, from sequence %d: %w", c.cfg.Durable, c.stream, start, err)
	}
	info := cons.CachedInfo()
	c.mu.Lock()
	c.anew(info)
	c.mu.Unlock()
	c.recovered(fmt.Sprintf("the durable was made anew, from sequence %d", start))
	return nil
}

// anew takes in a durable that was made anew. Replies of the old one mean nothing to it: verdicts that
// are not confirmed are given again when their messages are handed out again. The caller holds mu.
func (c *Consumer) anew(info *jetstream.ConsumerInfo) {
	c.durableMade = info.Created
	for id, m := range c.unsent {
		if m.state == ended {
			delete(c.unsent, id)
			m.id = 0
		}
	}
	c.pull.asked = 0
	c.cleared(info)
}

// recovered tells that events may have been missed.
func (c *Consumer) recovered(reason string) {
	c.mu.Lock()
	c.counts.Recoveries++
	c.mu.Unlock()
	c.log.Warn("recovered", "reason", reason)
	c.handler.Recovered(reason)
}

// consumerInfo asks the server for the durable.
func (c *Consumer) consumerInfo(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	cons, err := c.js.Consumer(ctx, c.stream, c.cfg.Durable)
	if err != nil {
		return nil, err
	}
	return cons.CachedInfo(), nil
}
