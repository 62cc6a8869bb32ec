package consumer

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// pullExpires is how long the server keeps a pull that it cannot serve.
	pullExpires = 30 * time.Second
	// pullBeat is how often the server says that a pull it keeps is alive; after silence of twice that
	// the pull is taken for lost.
	pullBeat = 2 * time.Second
)

// pull is what is known of the messages asked for. The consumer's mu guards it.
type pull struct {
	limit   int           // how many messages may be held
	asked   int           // messages asked for that have not arrived
	heard   time.Duration // when the server last answered a pull
	arrives uint64        // messages that have arrived
	paused  bool          // no pull until the durable was looked up
}

// arrived counts one message off those asked for.
func (p *pull) arrived(now time.Duration) {
	p.heard = now
	p.arrives++
	p.asked = max(0, p.asked-1)
}

// wanted reports whether there is room for so many more messages that asking is worth it: a quarter of
// the limit, or any at all when nothing is asked for.
func (p *pull) wanted(held int) bool {
	room := p.limit - held - p.asked
	return !p.paused && room > 0 && (p.asked == 0 || room*4 >= p.limit)
}

// SetLimit changes how many messages are held at most; it starts as MaxAckPending and cannot exceed it. It
// may be called before Start. With 0 nothing is asked for; what was asked for before may still arrive.
func (c *Consumer) SetLimit(n int) {
	c.mu.Lock()
	c.pull.limit = min(max(n, 0), c.durable.MaxAckPending)
	c.mu.Unlock()
	c.refill()
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
	if !c.started || c.stopping || c.closed || !c.pull.wanted(len(c.messages)) {
		return
	}
	n := c.pull.limit - len(c.messages) - c.pull.asked
	req := pullRequest{Batch: n, Expires: pullExpires, Beat: pullBeat}
	if most := c.durable.MaxRequestBatch; most > 0 {
		req.Batch = min(n, most)
	}
	if most := c.durable.MaxRequestExpires; most > 0 && most < req.Expires {
		req.Expires = most
		req.Beat = min(req.Beat, most/3)
	}
	body, err := json.Marshal(req)
	if err != nil {
		return // three numbers
	}
	if c.publish(c.nextSubject(), c.inbox+".p", body) != nil {
		return // the watchdog tries again
	}
	c.pull.asked += req.Batch
	c.pull.heard = c.now()
}

// nextSubject is where pulls are sent.
func (c *Consumer) nextSubject() string {
	return apiPrefix(c.js) + "CONSUMER.MSG.NEXT." + c.stream + "." + c.durable.Durable
}

func apiPrefix(js jetstream.JetStream) string {
	opts := js.Options()
	switch {
	case opts.APIPrefix != "":
		return opts.APIPrefix + "."
	case opts.Domain != "":
		return "$JS." + opts.Domain + ".API."
	default:
		return jetstream.DefaultAPIPrefix
	}
}

// pullStatus takes in what the server says of a pull without sending a message.
func (c *Consumer) pullStatus(status string, header nats.Header) {
	now := c.now()
	c.mu.Lock()
	c.pull.heard = now
	if status == "100" { // the pull is alive
		c.mu.Unlock()
		return
	}
	// The pull has ended. What it still had to deliver, the server says in most cases.
	if left, err := strconv.Atoi(header.Get("Nats-Pending-Messages")); err == nil {
		c.pull.asked = max(0, c.pull.asked-left)
	} else {
		c.pull.asked = 0
	}
	description := header.Get("Description")
	if status != "404" && status != "408" {
		// 409 is leadership change, server shutdown, consumer deleted and the like; 503 nobody there.
		c.pull.asked = 0
	}
	c.mu.Unlock()
	switch {
	case status == "404" || status == "408":
		c.refill()
	case status == "409" && (description == "Leadership Change" || description == "Batch Completed"):
		// The durable is as it was; whoever leads it now wants to be asked again.
		c.refill()
		c.call("pull ended: " + description)
	default:
		c.suspectNow("pull ended: " + status + " " + description)
	}
}

// watch makes a pull anew when the server has been silent for too long, though it promised to say that
// the pull is alive.
func (c *Consumer) watch(now time.Duration) {
	c.mu.Lock()
	silent := c.pull.asked > 0 && now-c.pull.heard > 2*pullBeat+pullBeat/2
	if silent {
		c.pull.asked = 0
	}
	c.mu.Unlock()
	if silent {
		c.call("a pull fell silent")
	}
	c.refill()
}
