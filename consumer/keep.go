package consumer

import "time"

// keep is the goroutine that does what must be done in time: heartbeats, repeated verdicts, the hold
// limit, the watch over pulls. It waits for nobody.
func (c *Consumer) keep() {
	every := c.tick()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-ticker.C:
		}
		now := c.now()
		c.beat(now)
		c.resend(now)
		c.release(now)
		c.watch(now)
		c.noticeDenials()
		if tick := c.tick(); tick != every { // AckWait was changed
			every = tick
			ticker.Reset(every)
		}
	}
}

// tick is how often keep looks: the shortest interval in play is a quarter of a third of AckWait.
func (c *Consumer) tick() time.Duration {
	return min(max(c.AckWait()/24, 5*time.Millisecond), 250*time.Millisecond)
}
