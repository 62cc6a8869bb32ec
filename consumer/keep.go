package consumer

import "time"

// keep is the goroutine that does what must be done in time: heartbeats, repeated verdicts, the hold
// limit, the watch over pulls. It waits for nobody.
func (c *Consumer) keep() {
	// The shortest interval in play is a quarter of a third of AckWait.
	c.mu.Lock()
	every := min(max(c.ackWait()/24, 5*time.Millisecond), 250*time.Millisecond)
	c.mu.Unlock()
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
	}
}
