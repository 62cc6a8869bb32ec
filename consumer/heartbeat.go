package consumer

import (
	"slices"
	"strconv"
	"time"
)

// beatToken begins what the answer to a round of heartbeats is addressed to; the time at which the round
// was sent follows, in nanoseconds on the consumer's clock.
const beatToken = "-"

// beatChunk is how many heartbeats are sent without letting anybody else at the lock.
const beatChunk = 256

// lease is what is known of how long the server leaves the held messages to this replica.
//
// A message's lease is certain for AckWait from the moment a heartbeat that arrived was sent. The last
// heartbeat of a round is answered, and the server takes those of one connection in order, so its answer
// stands for the round. All times are on the consumer's clock.
type lease struct {
	sent      time.Duration // when the last round that was confirmed was sent
	lapsed    time.Duration // what was received up to then, and not again since, may be somebody else's
	attempted time.Duration // when the last round was begun
	ignore    time.Duration // answers to rounds sent before then do not count
	failed    bool          // the last round could not be sent, or not all of it
}

// beatEvery is the time from one round of heartbeats to the next.
func (c *Consumer) beatEvery() time.Duration { return c.ackWait() / 3 }

// ackWait is how long the server waits before it hands a message out again: AckWait, or the shortest
// step of a BackOff, which takes its place (in a durable that was bound).
func (c *Consumer) ackWait() time.Duration {
	wait := c.durable.AckWait
	for _, step := range c.durable.BackOff {
		if step > 0 {
			wait = min(wait, step)
		}
	}
	return wait
}

// beat sends one heartbeat for each message that is held, if it is time for a round. A round that could not
// be sent is repeated four times as fast, so that AckWait outlasts failures. One that was sent and is not
// confirmed is not: a server that is too busy to answer would get four times as much to do.
func (c *Consumer) beat(now time.Duration) {
	if !c.conn.IsConnected() {
		return // the client would keep them all for later, and be full of them
	}
	c.mu.Lock()
	every := c.beatEvery()
	if c.lease.failed {
		every /= 4
	}
	if now-c.lease.attempted < every || len(c.messages) == 0 {
		c.mu.Unlock()
		return
	}
	c.lease.attempted = now
	list := make([]*Message, 0, len(c.messages))
	for _, m := range c.messages {
		if m.state == held {
			list = append(list, m)
		}
	}
	c.mu.Unlock()

	failed := false
	for len(list) > beatChunk {
		failed = c.beatEach(list[:beatChunk], "") || failed
		list = list[beatChunk:]
	}
	answer := c.inbox + ".a." + beatToken + strconv.FormatInt(int64(now), 10)
	failed = c.beatEach(list, answer) || failed
	c.mu.Lock()
	c.lease.failed = failed
	c.mu.Unlock()
}

// beatEach sends heartbeats for those of list that are still held; with an answer, the last of them asks
// for it. It reports whether one could not be sent.
func (c *Consumer) beatEach(list []*Message, answer string) (failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var last *Message
	if answer != "" {
		for _, m := range slices.Backward(list) {
			if m.state == held {
				last = m
				break
			}
		}
		if last == nil {
			// All of them were decided meanwhile; whatever is held can carry the wish for an answer.
			for _, m := range c.messages {
				if m.state == held {
					last = m
					break
				}
			}
		}
	}
	for _, m := range list {
		if m.state == held && m != last {
			failed = c.publish(c.reply(m), "", beatBody) != nil || failed
			c.counts.Heartbeats++
		}
	}
	if last != nil {
		failed = c.publish(c.reply(last), answer, beatBody) != nil || failed
		c.counts.Heartbeats++
	}
	return failed
}

// beatAnswered notes that the round of heartbeats that was begun at sent has arrived.
func (c *Consumer) beatAnswered(token string, refused bool) {
	if refused {
		c.doubt("a heartbeat found no consumer")
		return
	}
	nanos, err := strconv.ParseInt(token, 10, 64)
	if err != nil {
		return
	}
	sent, now := time.Duration(nanos), c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denials.settle = nil
	l := &c.lease
	if sent < l.ignore || sent <= l.sent {
		return
	}
	if wait := c.ackWait(); now-l.sent > wait {
		// The answer came later than one AckWait after the round before was sent: what was held then
		// may have been handed out in between. What was received since is judged by its own time.
		l.lapsed = max(l.lapsed, now-wait)
	}
	l.sent = sent
}

// interrupted forgets the round under way, of which a part may not have arrived, and asks for another at
// once. The caller holds mu.
func (l *lease) interrupted(now time.Duration) {
	l.attempted, l.ignore = 0, now
}

// lapsed reports whether another replica may have been given m. The caller holds mu.
func (c *Consumer) lapsed(m *Message, now time.Duration) bool {
	if m.lapsed || m.received <= c.lease.lapsed {
		return true
	}
	from := m.received
	if from <= c.lease.sent {
		from = c.lease.sent
	}
	return now-from > c.ackWait()
}

// release gives back what was held for longer than the hold limit allows.
func (c *Consumer) release(now time.Duration) {
	if c.cfg.HoldLimit == 0 {
		return
	}
	var over []*Message
	c.mu.Lock()
	for _, m := range c.messages {
		if m.state == held && now-m.first > c.cfg.HoldLimit {
			over = append(over, m)
		}
	}
	c.mu.Unlock()
	for _, m := range over {
		if c.giveBack(m, 0, Released) {
			c.log.Warn("a message was held as long as the hold limit allows: given back",
				"sequence", m.seq, "limit", c.cfg.HoldLimit)
		}
	}
}
