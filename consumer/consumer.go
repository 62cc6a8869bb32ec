package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Handler works on messages.
type Handler interface {
	// Handle is given each message that is new to this replica, in the order of arrival, from one
	// goroutine. It must see to it that the message is decided at some time: by Ack, Term or GiveBack,
	// from any goroutine. While Handle runs no further message is handed to it; heartbeats go on.
	Handle(m *Message)
	// Ended is called once for each message, when this replica has nothing more to do with it: after
	// its verdict was confirmed, after it was given back, or when it was lost. It must not block, and
	// may be called from any goroutine, before Handle has returned too.
	Ended(m *Message, how Ending)
	// Recovered is called after events may have been missed or are handed out again: the durable or its
	// stream was made anew. It must not block.
	Recovered(reason string)
}

// Consumer consumes one durable. Its methods may be called from any goroutine.
type Consumer struct {
	cfg     Config
	js      *permitted
	conn    *nats.Conn
	log     *slog.Logger
	handler Handler
	began   time.Time // time on the consumer's clock is time since then
	inbox   string
	bounds  bounds
	publish func(subject, reply string, data []byte) error // to the server; tests make it fail

	// Set by Open, changed by recovery under mu.
	stream        string
	streamCreated time.Time
	durable       jetstream.ConsumerConfig // as the server reports it
	durableMade   time.Time
	clustered     bool   // a cluster keeps it: it may get another leader at any time
	floor         uint64 // the last ack floor the server reported

	mu       sync.Mutex
	started  bool
	stopping bool
	closed   bool
	down     bool   // the connection is not there
	suspect  bool   // verdicts wait until the durable was looked up
	doubts   uint64 // times it became suspect
	messages map[uint64]*Message
	peak     int
	decided  decidedLog
	fresh    []*Message // received, not handed to the Handler yet
	work     chan struct{}
	unsent   map[uint64]*Message // by id: verdicts and naks that are not confirmed
	outbox   []*Message          // decided just now: settle sends their verdicts
	groups   map[uint64]group    // by id: what the answer to a verdict stands for besides
	lastID   uint64
	lease    lease
	pull     pull
	health   health
	denials  denials
	counts   Counts
	idle     chan struct{} // closed when unsent becomes empty, while somebody waits for it

	answers   *nats.Subscription
	decisions chan struct{} // something is in the outbox
	doctor    chan string   // reasons to look the durable up
	stop      chan struct{}
	running   sync.WaitGroup
	handed    chan struct{} // closed when no further message is handed to the Handler
	stopped   chan struct{} // closed when StopPulling is done
}

// Open provisions the stream and the durable of cfg, or checks them if they exist, and returns a Consumer
// that does not consume yet: Start does. It waits for a server that is not reachable yet as long as ctx
// and cfg.StartTimeout allow. Its errors say what it was doing, to what, and what is wrong.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Consumer, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("consumer %q: %w", cfg.Durable, err)
	}
	c := &Consumer{
		cfg:       cfg,
		js:        permit(js),
		conn:      js.Conn(),
		began:     time.Now(),
		messages:  map[uint64]*Message{},
		unsent:    map[uint64]*Message{},
		groups:    map[uint64]group{},
		work:      make(chan struct{}, 1),
		decisions: make(chan struct{}, 1),
		doctor:    make(chan string, 1),
		stop:      make(chan struct{}),
		handed:    make(chan struct{}),
		stopped:   make(chan struct{}),
		bounds:    defaultBounds,
	}
	c.pull.most = math.MaxInt
	c.inbox = c.conn.NewInbox()
	c.publish = func(subject, reply string, data []byte) error {
		if reply == "" {
			return c.conn.Publish(subject, data)
		}
		return c.conn.PublishRequest(subject, reply, data)
	}
	if err := c.provision(ctx); err != nil {
		return nil, fmt.Errorf("consumer %q: %w", cfg.Durable, err)
	}
	c.log = cfg.Logger.With("stream", c.stream, "durable", c.durable.Durable)
	return c, nil
}

// Start begins to consume: from now on h is called. It may be called once.
func (c *Consumer) Start(h Handler) error {
	defer c.refill()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.closed {
		return fmt.Errorf("consumer %q: it was started or closed before", c.cfg.Durable)
	}
	c.denials.seen = c.conn.LastError()
	var err error
	if c.answers, err = c.subscribe(c.inbox+".a.*", c.answered); err != nil {
		return err
	}
	if err = c.renew(); err != nil {
		_ = c.answers.Unsubscribe()
		return err
	}
	c.started, c.handler = true, h
	c.running.Go(c.settle)
	c.running.Go(c.listen)
	c.running.Go(c.keep)
	c.running.Go(c.attend)
	go c.hand()
	return nil
}

// now is the time on the consumer's clock, which no adjustment of the wall clock moves.
func (c *Consumer) now() time.Duration { return time.Since(c.began) }

// received is called for everything that comes in answer to the pulls of an epoch.
func (c *Consumer) received(msg *nats.Msg, epoch uint64) {
	if len(msg.Data) == 0 && len(msg.Header) > 0 && msg.Reply == "" {
		if status := msg.Header.Get("Status"); status != "" {
			c.pullStatus(status, msg.Header, epoch)
			return
		}
	}
	d, err := parseReply(msg.Reply)
	if err != nil {
		c.log.Warn("a message that is no delivery arrived in answer to a pull: ignored", "subject", msg.Subject)
		return
	}
	now := c.now()

	c.mu.Lock()
	if epoch < c.pull.since {
		c.mu.Unlock()
		return // handed out by a durable that is gone: the new one does so again
	}
	c.pull.arrived(now, epoch)
	c.denials.pull, c.denials.hear = nil, nil
	if old := c.messages[d.seq]; old != nil {
		if old.stored != d.time {
			c.clash(msg.Reply)
			return
		}
		c.copied(old, msg.Reply, d, now)
		return
	}
	m := &Message{
		consumer: c, msg: msg, seq: d.seq, stored: d.time, received: now, first: now,
	}
	c.setReply(m, msg.Reply, d)
	c.counts.Received++
	if d.count > 1 {
		c.counts.Redelivered++
	}
	if v := c.decided.find(d.seq, d.time); v != none {
		c.counts.Repeated++
		m.state, m.verdict, m.since, m.handled, m.silent = decided, v, now, true, true
		m.msg = nil
		c.messages[d.seq] = m
		c.register(m)
		c.send(m, now)
		c.mu.Unlock()
		return
	}
	c.messages[d.seq] = m
	c.peak = max(c.peak, len(c.messages))
	if c.stopping {
		c.mu.Unlock()
		c.giveBack(m, 0, GivenBack)
		return
	}
	c.fresh = append(c.fresh, m)
	first := len(c.fresh) == 1
	c.mu.Unlock()
	if first {
		select {
		case c.work <- struct{}{}:
		default:
		}
	}
}

// clash takes in that two messages have the same number: the stream was made anew, and one of them is of the
// old one. Neither is kept, nor anything else, and what is under way is not taken in: the durable there is
// now hands out its own again. The caller holds mu, which it releases.
func (c *Consumer) clash(reply string) {
	lost := c.forgetAll()
	_ = c.renew() // fails only on a connection that is closed
	c.pull.since = c.pull.epoch
	c.suspectNow()
	_ = c.publish(reply, "", nakBody) // whichever it hits, it is handed out once more
	c.mu.Unlock()
	const how = "a message of another incarnation of the stream arrived"
	c.forgotten(lost, how)
	c.call(how)
}

// copied takes in a further copy of a message that is still here. The caller holds mu, which it releases.
func (c *Consumer) copied(m *Message, reply string, d delivery, now time.Duration) {
	defer c.mu.Unlock()
	c.counts.Received++
	c.counts.Redelivered++
	if !m.replaced && d.cseq < m.cseq && d.count <= uint64(m.deliveries) {
		return // an older one, late
	}
	if d.count > uint64(m.deliveries)+1 {
		m.lapsed = true // another replica was given it in between
	}
	m.received = now
	c.setReply(m, reply, d)
	switch m.state {
	case held:
		c.counts.Absorbed++
	case decided:
		c.counts.Repeated++
		c.send(m, now)
	}
}

// hand gives messages to the Handler.
func (c *Consumer) hand() {
	defer close(c.handed)
	var batch []*Message
	for {
		select {
		case <-c.stop:
			return
		case <-c.work:
		}
		for {
			c.mu.Lock()
			batch, c.fresh = c.fresh, batch[:0]
			c.mu.Unlock()
			if len(batch) == 0 {
				break
			}
			for i, m := range batch {
				batch[i] = nil
				c.mu.Lock()
				skip := m.state != held
				m.handled = true
				c.mu.Unlock()
				if !skip {
					c.handler.Handle(m)
				}
			}
		}
	}
}

// forgetAll ends everything that is held, without a verdict, and returns it, for forgotten. The caller
// holds mu.
func (c *Consumer) forgetAll() (lost []*Message) {
	for _, m := range c.messages {
		m.state = ended
		lost = append(lost, m)
	}
	c.messages, c.peak = map[uint64]*Message{}, 0
	c.decided = decidedLog{}
	c.fresh = nil
	clear(c.unsent)
	clear(c.groups)
	c.notifyIdle()
	c.counts.Forgotten += uint64(len(lost))
	return lost
}

// forgotten tells of messages that forgetAll has ended. The caller does not hold mu.
func (c *Consumer) forgotten(lost []*Message, why string) {
	if len(lost) == 0 {
		return
	}
	c.log.Warn("everything held is forgotten: it belongs to a stream that is gone", "messages", len(lost), "reason", why)
	for _, m := range lost {
		if !m.silent {
			c.handler.Ended(m, Forgotten)
		}
	}
}

// end takes m out of the books; the caller holds mu and calls Handler.Ended once it does not.
func (c *Consumer) end(m *Message) {
	m.state = ended
	if c.messages[m.seq] == m {
		delete(c.messages, m.seq)
		if len(c.messages) == 0 && c.peak > 8192 {
			// A map keeps its size for ever; a burst's memory goes back.
			c.messages, c.peak = map[uint64]*Message{}, 0
		}
	}
	if m.id != 0 {
		delete(c.unsent, m.id)
		delete(c.groups, m.id)
		m.id = 0
		c.notifyIdle()
	}
}

// Held returns the messages that have no verdict yet, in no particular order.
func (c *Consumer) Held() []*Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*Message, 0, len(c.messages))
	for _, m := range c.messages {
		if m.state == held {
			list = append(list, m)
		}
	}
	return list
}

// StopPulling ends the stream of new messages: it asks for no more, takes in what is under way and gives
// back at once everything that the Handler was not handed yet. It returns when that is done, or with an
// error when ctx ended first. Further calls wait for the first.
func (c *Consumer) StopPulling(ctx context.Context) error {
	c.mu.Lock()
	if !c.started {
		c.mu.Unlock()
		return nil
	}
	if c.stopping {
		c.mu.Unlock()
		select {
		case <-c.stopped:
			return nil
		case <-ctx.Done():
			return c.underWay(ctx.Err())
		}
	}
	c.stopping = true
	subs := []*nats.Subscription{c.pull.sub, c.pull.old}
	c.mu.Unlock()
	defer close(c.stopped)

	// What the server sent before it knew arrives in order, and received gives it back.
	var err error
	for _, sub := range subs {
		e := c.drain(ctx, sub)
		if e != nil && !errors.Is(e, nats.ErrConnectionClosed) && !errors.Is(e, nats.ErrBadSubscription) {
			err = c.underWay(e)
		}
	}
	c.mu.Lock()
	var waiting []*Message
	for _, m := range c.messages {
		if m.state == held && !m.handled {
			waiting = append(waiting, m)
		}
	}
	c.fresh = nil
	c.mu.Unlock()
	for _, m := range waiting {
		m.GiveBack(0)
	}
	return err
}

func (c *Consumer) underWay(err error) error {
	return fmt.Errorf("consumer %q: waiting for messages under way to arrive: %w", c.cfg.Durable, err)
}

// told is how soon whoever hands out messages takes in that it is to stop.
const told = 100 * time.Millisecond

// Close stops everything: it calls StopPulling, waits until the server has confirmed the verdicts given
// so far and Handle has returned, or until ctx ends, and lets go of whatever is still held, which the
// server hands out again after AckWait. So decide messages before. The error says what was not confirmed.
func (c *Consumer) Close(ctx context.Context) error {
	err := c.StopPulling(ctx)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return err
	}
	c.closed = true
	started := c.started
	var idle chan struct{}
	if len(c.unsent) > 0 {
		idle = make(chan struct{})
		c.idle = idle
	}
	c.mu.Unlock()
	if !started {
		return err
	}
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
		}
	}
	close(c.stop)
	c.running.Wait() // they wait for nobody
	select {
	case <-c.handed:
	case <-ctx.Done():
		// ctx may have ended with the wait before this one: whoever hands out messages has only now been told.
		select {
		case <-c.handed:
		case <-time.After(told):
			err = errors.Join(err, fmt.Errorf("consumer %q: the Handler is still busy with a message", c.cfg.Durable))
		}
	}

	c.mu.Lock()
	for _, sub := range []*nats.Subscription{c.answers, c.pull.sub, c.pull.old} {
		if sub != nil {
			_ = sub.Unsubscribe() // fails if it is gone
		}
	}
	lost := make(map[*Message]Ending, len(c.messages))
	unconfirmed := 0
	for _, m := range c.messages {
		lost[m] = GivenBack
		if m.state == decided {
			unconfirmed++
			lost[m] = Unconfirmed
		}
		m.state = ended
	}
	c.messages = map[uint64]*Message{}
	wait := c.ackWait()
	c.mu.Unlock()
	for m, how := range lost {
		if !m.silent {
			c.handler.Ended(m, how)
		}
	}
	if unconfirmed > 0 {
		err = errors.Join(err, fmt.Errorf("consumer %q: the server confirmed %d verdicts too late or not at all; "+
			"those messages are handed out again after %v", c.cfg.Durable, unconfirmed, wait))
	}
	return err
}
