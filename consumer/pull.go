package consumer

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// pull is what is known of the messages asked for. The consumer's mu guards it.
//
// The pulls of one epoch share a subscription. Whenever the pulls under way may have ended without our
// knowing how many messages they still had to deliver, or may live on though we think they ended, a new
// epoch begins: with the interest of their inbox gone the server drops the old ones, and the count
// starts from zero.
type pull struct {
	most    int           // how many messages may be held: SetLimit
	limit   int           // the same, within MaxAckPending
	asked   int           // messages asked for in this epoch that have not arrived
	heard   time.Duration // when the server last answered a pull of this epoch
	arrives uint64        // messages that have arrived
	silent  int           // times in a row that the server said nothing of a pull
	stuck   int           // times in a row that messages were pending and none arrived
	paused  bool          // no pull until the durable was looked up

	epoch uint64
	since uint64 // messages of earlier epochs are those of a durable that is gone
	inbox string
	sub   *nats.Subscription
	old   *nats.Subscription // of the epoch before, for messages that are under way
}

// arrived counts one message off those asked for.
func (p *pull) arrived(now time.Duration, epoch uint64) {
	p.arrives++
	p.stuck = 0
	if epoch == p.epoch {
		p.heard, p.silent = now, 0
		p.asked = max(0, p.asked-1)
	}
}

// wanted reports whether there is room for so many more messages that asking is worth it: a quarter of
// the limit, or any at all when nothing is asked for.
func (p *pull) wanted(held int) bool {
	room := p.limit - held - p.asked
	return !p.paused && room > 0 && (p.asked == 0 || room*4 >= p.limit)
}

// retire gives up the subscription of the epoch before.
func (p *pull) retire() {
	if p.old != nil {
		_ = p.old.Unsubscribe() // fails if it is gone
		p.old = nil
	}
}

// renew begins a new epoch of pulls. The caller holds mu.
func (c *Consumer) renew() error {
	p := &c.pull
	p.asked = 0
	if c.stopping {
		return nil
	}
	p.epoch++
	epoch := p.epoch
	p.inbox = c.inbox + ".p" + strconv.FormatUint(epoch, 36)
	p.retire()
	p.old, p.sub = p.sub, nil
	sub, err := c.subscribe(p.inbox, func(msg *nats.Msg) { c.received(msg, epoch) })
	if err != nil {
		return err
	}
	p.sub = sub
	return nil
}

// subscribe subscribes without limits: the number of messages is bounded by what is asked for, and the
// client must drop none.
func (c *Consumer) subscribe(subject string, handle nats.MsgHandler) (*nats.Subscription, error) {
	sub, err := c.conn.Subscribe(subject, handle)
	if err != nil {
		return nil, fmt.Errorf("consumer %q: subscribing to its inbox: %w", c.cfg.Durable, err)
	}
	if err = sub.SetPendingLimits(-1, -1); err != nil {
		_ = sub.Unsubscribe()
		return nil, fmt.Errorf("consumer %q: lifting its inbox's limits: %w", c.cfg.Durable, err)
	}
	return sub, nil
}

// drain tells the server that the interest in a subscription has ended and waits until all that the server
// sent before it knew was taken in.
func (c *Consumer) drain(ctx context.Context, sub *nats.Subscription) error {
	if sub == nil {
		return nil
	}
	if !c.conn.IsConnected() {
		// Nothing is under way, and the client would subscribe once more with the new connection if it
		// were draining: for nobody.
		return sub.Unsubscribe()
	}
	drained := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(drained) })
	if err := sub.Drain(); err != nil {
		return err
	}
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SetLimit changes how many messages are held at most; it starts as MaxAckPending and cannot exceed it. It
// may be called before Start. With 0 nothing is asked for, and what was asked for before is taken back.
func (c *Consumer) SetLimit(n int) {
	c.mu.Lock()
	if n >= c.durable.MaxAckPending {
		n = math.MaxInt // also when MaxAckPending is raised
	}
	c.pull.most = max(n, 0)
	c.pull.limit = min(c.pull.most, c.durable.MaxAckPending)
	if c.pull.limit == 0 && c.pull.asked > 0 && !c.stopping {
		c.withdraw()
	}
	c.mu.Unlock()
	c.refill()
}

// withdraw takes back what was asked for: the server drops a pull when nobody listens to its inbox. What it has
// sent already still arrives. The caller holds mu.
func (c *Consumer) withdraw() {
	if c.renew() != nil || c.pull.old == nil {
		return // the connection is closed
	}
	if c.conn.IsConnected() {
		_ = c.pull.old.Drain()
		c.pull.old = nil
	}
	c.pull.retire()
}

// pullRequest is the body of a pull.
type pullRequest struct {
	Batch   int           `json:"batch"`
	Expires time.Duration `json:"expires"`
	Beat    time.Duration `json:"idle_heartbeat"`
}

// refill asks for as many messages as there is room for.
func (c *Consumer) refill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.pull
	if p.sub == nil || c.stopping || !p.wanted(len(c.messages)) {
		return
	}
	req := pullRequest{Batch: p.limit - len(c.messages) - p.asked, Expires: c.bounds.expires, Beat: c.bounds.pulse}
	if most := c.durable.MaxRequestBatch; most > 0 {
		req.Batch = min(req.Batch, most)
	}
	if most := c.durable.MaxRequestExpires; most > 0 && most < req.Expires {
		req.Expires = most
		req.Beat = min(req.Beat, most/3)
	}
	body, err := json.Marshal(req)
	if err != nil {
		return // three numbers
	}
	if c.publish(c.nextSubject(), p.inbox, body) != nil {
		return // the watch over pulls tries again
	}
	if p.asked == 0 {
		p.heard = c.now()
	}
	p.asked += req.Batch
}

// nextSubject is where pulls are sent.
func (c *Consumer) nextSubject() string {
	return apiPrefix(c.js) + "CONSUMER.MSG.NEXT." + c.stream + "." + c.durable.Durable
}

func apiPrefix(js jetstream.JetStream) string {
	opts := js.Options()
	switch {
	case opts.APIPrefix != "":
		return strings.TrimSuffix(opts.APIPrefix, ".") + "."
	case opts.Domain != "":
		return "$JS." + opts.Domain + ".API."
	default:
		return jetstream.DefaultAPIPrefix
	}
}

// pullStatus takes in what the server says of a pull without sending a message.
func (c *Consumer) pullStatus(status string, header nats.Header, epoch uint64) {
	description := header.Get("Description")
	c.mu.Lock()
	if epoch != c.pull.epoch {
		c.mu.Unlock()
		return // that pull was given up before
	}
	c.pull.heard, c.pull.silent = c.now(), 0
	c.denials.pull, c.denials.hear = nil, nil
	switch status {
	case "100": // the pull is alive
		c.mu.Unlock()
		return
	case "404", "408":
		// It has ended; how much it still had to deliver, the server says.
		left, err := strconv.Atoi(header.Get("Nats-Pending-Messages"))
		if err != nil {
			left = c.pull.asked
		}
		c.pull.asked = max(0, c.pull.asked-left)
		c.mu.Unlock()
		c.refill()
		return
	}
	// It has ended before its time, and the others with it, most likely: 409 is leadership change, server
	// shutdown, consumer deleted and the like; 503 nobody there.
	err := c.renew()
	c.mu.Unlock()
	reason := "pull ended: " + status + " " + description
	if err == nil && status == "409" && description == "Leadership Change" {
		// The durable is as it was; whoever leads it now wants to be asked again.
		c.refill()
		c.call(reason)
		return
	}
	c.doubt(reason)
}

// watch makes pulls anew when the server has been silent for too long, though it promised to say that
// they are alive.
func (c *Consumer) watch(now time.Duration) {
	c.mu.Lock()
	// Each time it is given longer: one large message over a slow connection is silence too, until all of it is here.
	patience := (2*c.bounds.pulse + c.bounds.pulse/2) << min(c.pull.silent, 5)
	silent := c.pull.asked > 0 && now-c.pull.heard > patience
	if silent {
		c.pull.silent++
		_ = c.renew() // fails only on a connection that is closed
	}
	c.mu.Unlock()
	if silent {
		c.call("a pull fell silent")
	}
	c.refill()
}
