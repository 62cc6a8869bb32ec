package consumer

import (
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

var (
	ackBody  = []byte("+ACK")
	termBody = []byte("+TERM")
	nakBody  = []byte("-NAK")
	beatBody = []byte("+WPI")
)

// decide gives m its verdict, which settle sends.
func (c *Consumer) decide(m *Message, v verdict) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.state != held {
		return false
	}
	now := c.now()
	m.state, m.verdict, m.since = decided, v, now
	c.decided.add(m.seq, m.stored, v)
	c.register(m)
	c.outbox = append(c.outbox, m)
	if len(c.outbox) == 1 {
		select {
		case c.decisions <- struct{}{}:
		default:
		}
	}
	return true
}

// sendChunk is how many verdicts are sent without letting anybody else at the lock.
const sendChunk = 64

// settle is the goroutine that sends verdicts. It lets everybody else go first who can: under load it finds
// many at once, which then take one write to the connection and not one each.
func (c *Consumer) settle() {
	var batch []*Message
	for {
		select {
		case <-c.stop:
			return
		case <-c.decisions:
		}
		runtime.Gosched()
		c.mu.Lock()
		batch, c.outbox = c.outbox, batch[:0]
		now := c.now()
		for i, m := range batch {
			batch[i] = nil
			if m.state == decided && m.tries == 0 {
				c.send(m, now)
			}
			if (i+1)%sendChunk == 0 {
				c.mu.Unlock()
				c.mu.Lock()
			}
		}
		c.mu.Unlock()
	}
}

// register makes m one of those whose answer is waited for. The caller holds mu.
func (c *Consumer) register(m *Message) {
	c.lastID++
	m.id = c.lastID
	c.unsent[m.id] = m
}

// send sends m's verdict, again or for the first time, on the reply of the newest copy. While the durable
// is suspect or the connection down it waits: the verdict could hit another message. The caller holds mu,
// so that no heartbeat of m can follow it.
func (c *Consumer) send(m *Message, now time.Duration) {
	if c.suspect || !c.conn.IsConnected() {
		return
	}
	body := ackBody
	if m.verdict == term {
		body = termBody
	}
	m.sent = now
	m.tries = min(m.tries+1, 1000)
	reply, answer := c.subjects(m)
	if err := c.publish(reply, answer, body); err != nil {
		c.counts.SendErrors++ // it is sent again
	}
}

// subjects are where m is settled and where the answer is to go: one allocation for the two. The caller holds
// mu.
func (c *Consumer) subjects(m *Message) (reply, answer string) {
	if m.odd != nil {
		return *m.odd, c.answerSubject(m.id)
	}
	var room [224]byte // ones with long names need more, and get it
	buf := c.appendReply(room[:0], m)
	n := len(buf)
	both := string(c.appendAnswer(buf, m.id))
	return both[:n], both[n:]
}

func (c *Consumer) answerSubject(id uint64) string {
	var room [96]byte // an inbox with a long prefix of the user's needs more, and gets it
	return string(c.appendAnswer(room[:0], id))
}

func (c *Consumer) appendAnswer(buf []byte, id uint64) []byte {
	return strconv.AppendUint(append(append(buf, c.inbox...), ".a."...), id, 36)
}

// answered is called when the server answers a verdict, a nak or the heartbeat that stands for a round.
func (c *Consumer) answered(msg *nats.Msg) {
	token := msg.Subject[len(c.inbox)+len(".a."):]
	refused := len(msg.Data) == 0 && len(msg.Header) > 0 && msg.Header.Get("Status") == "503"
	if round, ok := strings.CutPrefix(token, beatToken); ok {
		c.beatAnswered(round, refused)
		return
	}
	id, err := strconv.ParseUint(token, 36, 64)
	if err != nil {
		return
	}
	if refused {
		// Nobody listens: the durable is gone, or has no leader. The verdict is sent again later.
		c.doubt("a verdict found no consumer")
		return
	}
	c.mu.Lock()
	c.denials.settle = nil
	m := c.unsent[id]
	if m == nil {
		c.mu.Unlock()
		return
	}
	if m.state == ended { // a nak
		delete(c.unsent, id)
		m.id = 0
		c.notifyIdle()
		c.mu.Unlock()
		return
	}
	c.end(m)
	how := Acked
	if m.verdict == term {
		how = Termed
		c.counts.Termed++
	} else {
		c.counts.Acked++
	}
	more := c.pull.wanted(len(c.messages))
	c.mu.Unlock()
	if !m.silent {
		c.handler.Ended(m, how)
	}
	if more {
		c.refill()
	}
}

// notifyIdle tells whoever waits for the answers that none is missing. The caller holds mu.
func (c *Consumer) notifyIdle() {
	if c.idle != nil && len(c.unsent) == 0 {
		close(c.idle)
		c.idle = nil
	}
}

// giveBack naks m, unless its lease may have lapsed or the nak could hit another message: then it is left to
// redelivery.
func (c *Consumer) giveBack(m *Message, delay time.Duration, how Ending) bool {
	c.mu.Lock()
	if m.state != held {
		c.mu.Unlock()
		return false
	}
	now := c.now()
	c.end(m)
	c.counts.GivenBack++
	if !c.lapsed(m, now) && !c.suspect && c.conn.IsConnected() {
		body := nakBody
		if delay > 0 {
			body = append([]byte(`-NAK {"delay": `), strconv.FormatInt(int64(delay), 10)...)
			body = append(body, '}')
		}
		m.since = now
		c.register(m)
		if err := c.publish(c.reply(m), c.answerSubject(m.id), body); err != nil {
			c.counts.SendErrors++ // it is handed out again after AckWait
			delete(c.unsent, m.id)
			m.id = 0
			c.notifyIdle()
		}
	}
	c.mu.Unlock()
	if !m.silent {
		c.handler.Ended(m, how)
	}
	c.refill()
	return true
}

// resend sends verdicts again that were not answered in time, and gives up those whose bound has passed.
// It returns when it wants to be called again.
func (c *Consumer) resend(now time.Duration) {
	var given []*Message
	c.mu.Lock()
	for id, m := range c.unsent {
		switch {
		case m.state == ended: // a nak
			if now-m.since > c.bounds.nak {
				delete(c.unsent, id)
				m.id = 0
			}
		case now-m.since > c.bounds.confirm:
			c.end(m)
			c.counts.Unconfirmed++
			given = append(given, m)
		case !c.suspect && (m.tries == 0 || now-m.sent > c.bounds.resend(int(m.tries))):
			if m.tries > 0 {
				c.counts.Resent++
			}
			c.send(m, now)
		}
	}
	c.notifyIdle()
	c.mu.Unlock()
	for _, m := range given {
		c.log.Warn("the server did not confirm a verdict: it is given again when the message is redelivered",
			"sequence", m.seq, "waited", c.bounds.confirm)
		if !m.silent {
			c.handler.Ended(m, Unconfirmed)
		}
	}
}
