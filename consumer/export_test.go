package consumer

import (
	"time"

	"github.com/nats-io/nats.go"
)

// Hurry shortens, before Start, the times that do not follow from AckWait.
func Hurry(c *Consumer) {
	c.bounds.poll = 300 * time.Millisecond
	c.bounds.gone = 100 * time.Millisecond
	c.bounds.first, c.bounds.most = 10*time.Millisecond, 100*time.Millisecond
	c.bounds.resendFirst, c.bounds.resendMost = 50*time.Millisecond, 100*time.Millisecond
	c.bounds.nak = 200 * time.Millisecond
	c.bounds.expires, c.bounds.pulse = 3*time.Second, 100*time.Millisecond
}

// SetConfirmBound sets, before Start, how long a verdict is repeated.
func SetConfirmBound(c *Consumer, d time.Duration) { c.bounds.confirm = d }

// SetPoll sets, before Start, how often the durable is looked up when nothing is wrong.
func SetPoll(c *Consumer, d time.Duration) { c.bounds.poll = d }

// SetPulls sets, before Start, how long a pull lasts and how often the server says that it is alive.
func SetPulls(c *Consumer, expires, pulse time.Duration) {
	c.bounds.expires, c.bounds.pulse = expires, pulse
}

// Intercept has fail asked, from Start on, before anything is published to the server: what it returns an
// error for is not.
func Intercept(c *Consumer, fail func(subject string, data []byte) error) {
	publish := c.publish
	c.publish = func(subject, reply string, data []byte) error {
		if err := fail(subject, data); err != nil {
			return err
		}
		return publish(subject, reply, data)
	}
}

// SetResend sets, before Start, how long a verdict waits for its answer before it is sent again.
func SetResend(c *Consumer, d time.Duration) { c.bounds.resendFirst, c.bounds.resendMost = d, d }

// Deliver has a message arrive as if in answer to a pull: the server lets no client send one with such a
// reply.
func Deliver(c *Consumer, reply, data string) {
	c.mu.Lock()
	epoch := c.pull.epoch
	c.mu.Unlock()
	c.received(&nats.Msg{Subject: "orders.created.0", Reply: reply, Data: []byte(data)}, epoch)
}

// Swallow loses, from Start on, what lose says is to be lost on its way to the server.
func Swallow(c *Consumer, lose func(subject, reply string) bool) {
	publish := c.publish
	c.publish = func(subject, reply string, data []byte) error {
		if lose(subject, reply) {
			return nil
		}
		return publish(subject, reply, data)
	}
}

// SetLookUp sets, before Start, how long a look-up may take.
func SetLookUp(c *Consumer, d time.Duration) { c.bounds.lookUp = d }

// Beat sends a round of heartbeats now.
func Beat(c *Consumer) {
	c.mu.Lock()
	c.lease.attempted = 0
	c.mu.Unlock()
	c.beat(c.now() + time.Hour)
}

// DeliverStatus has a status arrive for a pull of the epoch before.
func DeliverStatus(c *Consumer, header nats.Header) {
	c.mu.Lock()
	epoch := c.pull.epoch - 1
	c.mu.Unlock()
	c.received(&nats.Msg{Header: header}, epoch)
}

// Doubt has the consumer doubt that the durable is still the one it knows.
func Doubt(c *Consumer) { c.doubt("a test says so") }

// AckTogether acks messages so that their verdicts are sent together.
func AckTogether(c *Consumer, ms ...*Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range ms {
		c.decideNow(m, ack)
	}
}

// Answer has an answer to m's verdict arrive; the server's is "+OK".
func Answer(c *Consumer, m *Message, data string) {
	c.mu.Lock()
	answer := c.answerSubject(m.id)
	c.mu.Unlock()
	c.answered(&nats.Msg{Subject: answer, Data: []byte(data)})
}

// Sent reports whether m's verdict was sent.
func Sent(m *Message) bool {
	m.consumer.mu.Lock()
	defer m.consumer.mu.Unlock()
	return m.tries > 0
}

// Locked calls f when nothing else happens to the consumer: what hooks look at can be changed there.
func Locked(c *Consumer, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}
