package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// reconnected is the reason of a look-up that does not wait, whatever went wrong before.
const reconnected = "reconnected"

var errDown = errors.New("the connection to NATS is lost")

// call asks for the durable to be looked up soon.
func (c *Consumer) call(reason string) {
	select {
	case c.doctor <- reason:
	default: // somebody has called already
	}
}

// doubt holds verdicts and pulls back until the durable was looked up: it may be gone, or be another one
// by now.
func (c *Consumer) doubt(reason string) {
	c.mu.Lock()
	c.suspectNow()
	c.mu.Unlock()
	c.call(reason)
}

// suspectNow is doubt for a caller that holds mu, and sees to the look-up.
func (c *Consumer) suspectNow() {
	c.holdBack()
	c.doubts++
}

// holdBack lets verdicts and pulls wait until the durable is known. What was sent together may have been taken in
// by halves. The caller holds mu.
func (c *Consumer) holdBack() {
	c.suspect, c.pull.paused = true, true
	clear(c.groups)
}

// listen is the goroutine that takes in, at once, that the connection was lost or is back.
func (c *Consumer) listen() {
	status := c.conn.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CONNECTED, nats.CLOSED)
	defer c.conn.RemoveStatusListener(status)
	if !c.conn.IsConnected() {
		c.connection(false)
	}
	for {
		select {
		case <-c.stop:
			return
		case s := <-status:
			c.connection(s == nats.CONNECTED)
			if s == nats.CLOSED {
				c.setHealth(nats.ErrConnectionClosed)
				return
			}
		}
	}
}

// connection takes in that the connection is up or not.
func (c *Consumer) connection(up bool) {
	c.mu.Lock()
	if !c.down { // it was lost, even if it is up again by now
		c.suspectNow()
		c.lease.interrupted(c.now())
		c.denials = denials{seen: c.denials.seen} // the new one may have other permissions
		_ = c.renew()                             // fails only on a connection that is closed
		c.pull.retire()
	}
	c.down = !up
	c.mu.Unlock()
	c.setHealth(errDown)
	if up {
		select {
		case <-c.doctor: // this one is more urgent
		default:
		}
		c.call(reconnected)
	}
}

// attend is the goroutine that looks the durable up, when something seems wrong and from time to time, and
// repairs what it can.
func (c *Consumer) attend() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-c.stop:
			cancel()
		case <-ctx.Done():
		}
	}()

	timer := time.NewTimer(c.bounds.poll)
	defer timer.Stop()
	var (
		reason  string        // why to look it up; "": only because it is time
		wait    time.Duration // after trouble: before it is looked up again
		next    time.Duration // when that is over
		trouble time.Duration // when there was any last
		arrives uint64        // messages that had arrived when it was last looked up
	)
	wait = c.bounds.first
	for {
		select {
		case <-c.stop:
			return
		case reason = <-c.doctor:
		case <-timer.C:
		}
		if reason == reconnected {
			wait, next = c.bounds.first, 0
		}
		if now := c.now(); now < next {
			timer.Reset(next - now)
			continue
		}
		if !c.conn.IsConnected() {
			timer.Reset(c.bounds.poll) // listen calls when it is back
			continue
		}
		if reason != "" {
			c.log.Debug("looking the durable up", "reason", reason)
		}
		err := c.lookUp(ctx, reason, &arrives)
		if ctx.Err() != nil {
			return
		}
		now := c.now()
		switch {
		case err != nil || reason != "":
			trouble, next = now, now+wait
			wait = min(2*wait, c.bounds.most)
		case now-trouble > 2*c.bounds.most:
			wait = c.bounds.first
		}
		c.setHealth(err)
		timer.Reset(c.bounds.poll)
		if err != nil {
			timer.Reset(next - now)
		}
		reason = ""
		c.refill()
	}
}

// lookUp asks the server for the durable and takes in what it says; what is gone is made anew.
func (c *Consumer) lookUp(ctx context.Context, reason string, arrives *uint64) error {
	ctx, cancel := context.WithTimeout(ctx, c.bounds.lookUp)
	defer cancel()
	c.mu.Lock()
	doubts := c.doubts // what is doubted from now on, this look-up does not clear
	c.mu.Unlock()
	info, err := c.consumerInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
		c.mu.Lock()
		c.holdBack()
		c.mu.Unlock()
		c.ails(fmt.Errorf("durable %q of stream %q is gone: %w", c.cfg.Durable, c.stream, err))
		return c.remake(ctx, doubts)
	case err != nil:
		return fmt.Errorf("looking up durable %q of stream %q: %w", c.cfg.Durable, c.stream, err)
	case !info.Created.Equal(c.durableMade):
		return c.adopt(ctx, info, doubts)
	}
	c.mu.Lock()
	c.cleared(info, doubts)
	// Messages wait, nobody is busy with as many as are allowed, and our pull, of which the server says that
	// it is alive, got none of them since the last look.
	stuck := reason == "" && info.NumPending > 0 && info.NumAckPending < info.Config.MaxAckPending &&
		!info.Paused && c.pull.asked > 0 && c.pull.arrives == *arrives && c.now()-c.pull.heard < 2*c.bounds.pulse
	*arrives = c.pull.arrives
	if stuck {
		c.pull.stuck++
		err = c.renew()
	}
	stalls, silent, denied := c.pull.stuck, c.pull.silent, c.denied()
	c.mu.Unlock()
	switch {
	case err != nil:
		return err
	case denied != nil:
		return denied
	case silent > 1:
		return fmt.Errorf("the server does not answer pulls: may %s be published to?", c.nextSubject())
	case stalls > 1:
		return fmt.Errorf("%d messages are pending, and none arrive in answer to pulls", info.NumPending)
	case stuck:
		c.log.Warn("messages are pending but none arrive: pulling anew", "pending", info.NumPending)
	}
	return c.refusal(info)
}

// cleared takes in what the server says of the durable, which is the one it was before: verdicts that
// waited for this can be sent, unless there was a new doubt since it was asked. The caller holds mu.
func (c *Consumer) cleared(info *jetstream.ConsumerInfo, doubts uint64) {
	c.use(info)
	c.health.pending, c.health.acks = info.NumPending, info.NumAckPending
	c.floor = info.AckFloor.Stream
	c.decided.prune(c.floor)
	if c.doubts != doubts {
		return
	}
	c.pull.paused = false
	c.pull.retire()
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
func (c *Consumer) adopt(ctx context.Context, info *jetstream.ConsumerInfo, doubts uint64) error {
	c.mu.Lock()
	c.holdBack()
	c.mu.Unlock()
	stream, err := c.lookUpStream(ctx)
	if err != nil {
		return err
	}
	if info, err = c.checkDurable(ctx, info); err != nil {
		return err
	}
	return c.goOn(stream.CachedInfo(), info, doubts, "the durable was made anew by somebody else")
}

// lookUpStream returns the stream that is consumed, or if that is gone what there is now in its place, found
// and checked as at the start. It is made anew if it is the one that this module would make; in place of
// somebody else's none is made, which would only be in the way when that comes back.
func (c *Consumer) lookUpStream(ctx context.Context) (jetstream.Stream, error) {
	stream, err := c.js.Stream(ctx, c.stream)
	switch {
	case err == nil && c.sameStream(stream.CachedInfo()):
		return stream, nil
	case err != nil && !errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("looking up stream %q: %w", c.stream, err)
	}
	want := c.wantedStream()
	if want.Make.Name == c.stream {
		timer := time.NewTimer(c.bounds.gone)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return provisionStream(ctx, c.js, want)
	}
	name, err := holder(ctx, c.js, want)
	if err == nil && name == "" {
		err = fmt.Errorf("stream %q is gone, which somebody else had made: create it", c.stream)
	}
	if err != nil {
		return nil, err
	}
	return existingStream(ctx, c.js, name, want)
}

// remake makes the durable anew after it was found to be gone, and the stream as well if that is gone.
func (c *Consumer) remake(ctx context.Context, doubts uint64) error {
	if c.cfg.Bind {
		return fmt.Errorf("durable %q of stream %q is gone, and Bind forbids to make it anew: "+
			"create it", c.cfg.Durable, c.stream)
	}
	stream, err := c.lookUpStream(ctx)
	if err != nil {
		return err
	}
	sinfo := stream.CachedInfo()
	start := uint64(1)
	c.mu.Lock()
	if c.sameStream(sinfo) { // if not, the position starts over
		start = c.floor + 1
		for seq := range c.messages {
			start = min(start, seq)
		}
	}
	c.mu.Unlock()

	cfg := c.wantedDurable()
	cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, start
	cons, err := stream.CreateConsumer(ctx, cfg)
	how := fmt.Sprintf("the durable was made anew, from sequence %d", start)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		how = "the durable was made anew by somebody else, who was faster"
		if cons, err = stream.Consumer(ctx, c.cfg.Durable); err == nil {
			var info *jetstream.ConsumerInfo
			if info, err = c.checkDurable(ctx, cons.CachedInfo()); err != nil {
				return err
			}
			return c.goOn(sinfo, info, doubts, how)
		}
	}
	if err != nil {
		return fmt.Errorf("making durable %q of stream %q anew, from sequence %d: %w", c.cfg.Durable, c.stream, start, err)
	}
	return c.goOn(sinfo, cons.CachedInfo(), doubts, how)
}

// sameStream reports whether a stream is the incarnation that is consumed.
func (c *Consumer) sameStream(info *jetstream.StreamInfo) bool {
	return info.Config.Name == c.stream && info.Created.Equal(c.streamCreated)
}

// goOn goes on with a durable that was made anew. Replies of the old one mean nothing to it: verdicts that
// are not confirmed are repeated until their messages were handed out again, and what is held may be
// somebody else's by now.
func (c *Consumer) goOn(stream *jetstream.StreamInfo, info *jetstream.ConsumerInfo, doubts uint64, how string) error {
	var lost []*Message
	c.mu.Lock()
	if !c.sameStream(stream) {
		lost = c.forgetAll()
		c.stream, c.streamCreated = stream.Config.Name, stream.Created
		how += ", and so was its stream"
	}
	c.durableMade = info.Created
	err := c.renew()
	c.pull.since = c.pull.epoch
	c.lease.lapsed = c.now()
	for _, m := range c.messages {
		m.replaced = true
	}
	for id, m := range c.unsent {
		if m.state == ended { // a nak
			delete(c.unsent, id)
			m.id = 0
		}
	}
	c.notifyIdle()
	c.cleared(info, doubts)
	c.counts.Recoveries++
	c.mu.Unlock()
	c.forgotten(lost, how)
	c.log.Warn("recovered", "reason", how)
	c.handler.Recovered(how)
	return err
}

// consumerInfo asks the server for the durable.
func (c *Consumer) consumerInfo(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	cons, err := c.js.Consumer(ctx, c.stream, c.cfg.Durable)
	if err != nil {
		return nil, err
	}
	return cons.CachedInfo(), nil
}
