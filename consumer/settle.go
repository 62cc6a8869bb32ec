package consumer

import (
	"runtime"
	"slices"
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

// okBody is what the server answers to a settlement, unless it answers with nothing.
const okBody = "+OK"

// decide gives m its verdict, which settle sends.
func (c *Consumer) decide(m *Message, v verdict) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decideNow(m, v)
}

// decideNow is decide for a caller that holds mu.
func (c *Consumer) decideNow(m *Message, v verdict) bool {
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

// together is how many verdicts are sent without letting anybody else at the lock, and how many at most one answer
// stands for.
const together = 64

// group is what was sent on one connection before a verdict that asks for an answer. The server takes in what a
// connection sends in order, so that answer stands for all of it.
type group struct {
	reconnects uint64 // of the connection, before the first was sent
	messages   []*Message
}

// settle is the goroutine that sends verdicts. It lets everybody else go first who can: under load it finds
// many at once, which take one write to the connection, and one answer.
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
		c.mu.Unlock()
		for some := range slices.Chunk(batch, together) {
			c.mu.Lock()
			c.sendEach(some, c.now())
			c.mu.Unlock()
		}
		clear(batch)
	}
}

// sendEach sends the verdicts of those of list that are still to be sent. The last one's answer stands for all of
// them, unless a cluster keeps the durable: when that gets another leader meanwhile, the first may get lost and the
// last be answered. The caller holds mu.
func (c *Consumer) sendEach(list []*Message, now time.Duration) {
	g := group{reconnects: c.conn.Stats().Reconnects, messages: make([]*Message, 0, len(list)-1)}
	var last *Message
	for _, m := range list {
		if m.state != decided || m.tries > 0 {
			continue
		}
		if c.clustered {
			c.send(m, now)
			continue
		}
		if last != nil && c.sendWith(last, "", now) {
			g.messages = append(g.messages, last)
		}
		last = m
	}
	if last != nil && c.send(last, now) && len(g.messages) > 0 {
		c.groups[last.id] = g
	}
}

// register makes m one of those whose answer is waited for. The caller holds mu.
func (c *Consumer) register(m *Message) {
	c.lastID++
	m.id = c.lastID
	c.unsent[m.id] = m
}

// send sends m's verdict, again or for the first time, and asks for an answer. It reports whether it did. The caller
// holds mu.
func (c *Consumer) send(m *Message, now time.Duration) bool {
	return c.sendWith(m, c.answerSubject(m.id), now)
}

// sendWith sends m's verdict on the reply of the newest copy, and has the answer go to answer, if that is not empty.
// While the durable is suspect or the connection down it waits: the verdict could hit another message. It reports
// whether it was sent. The caller holds mu, so that no heartbeat of m can follow it.
func (c *Consumer) sendWith(m *Message, answer string, now time.Duration) bool {
	if c.suspect || !c.conn.IsConnected() {
		return false
	}
	body := ackBody
	if m.verdict == term {
		body = termBody
	}
	m.sent = now
	m.tries = min(m.tries+1, 1000)
	if err := c.publish(c.reply(m), answer, body); err != nil {
		c.counts.SendErrors++ // it is sent again
		return false
	}
	return true
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
	if len(msg.Data) > 0 && string(msg.Data) != okBody {
		return // not the server's: somebody replies to whatever he can hear
	}
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
	g := c.groups[id]
	if m.state == ended { // a nak
		delete(c.unsent, id)
		m.id = 0
		c.notifyIdle()
		c.mu.Unlock()
		return
	}
	c.confirm(m)
	confirmed := g.messages[:0]
	if len(g.messages) > 0 && g.reconnects == c.conn.Stats().Reconnects {
		for _, other := range g.messages {
			if other.state == decided {
				c.confirm(other)
				confirmed = append(confirmed, other)
			}
		}
	}
	more := c.pull.wanted(len(c.messages))
	c.mu.Unlock()
	for _, other := range confirmed {
		c.tell(other)
	}
	c.tell(m)
	if more {
		c.refill()
	}
}

// confirm takes in that the server has m's verdict. The caller holds mu, and then calls tell.
func (c *Consumer) confirm(m *Message) {
	c.end(m)
	if m.verdict == term {
		c.counts.Termed++
	} else {
		c.counts.Acked++
	}
}

// tell tells of a message that confirm has ended.
func (c *Consumer) tell(m *Message) {
	if m.silent {
		return
	}
	how := Acked
	if m.verdict == term {
		how = Termed
	}
	c.handler.Ended(m, how)
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
