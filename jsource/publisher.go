package jsource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/reconciler/nats"
	"github.com/levelstream/jsource/tracing"
)

const (
	// publishTimeout bounds a publish whose context has no deadline.
	publishTimeout = 10 * time.Second
	// answerTimeout is how long one try waits for the stream's answer.
	answerTimeout = 2 * time.Second
	// answerRate is how many bytes of an event add another second to that.
	answerRate = 2 << 20
	// A try that failed is followed by another after retryFirst, then twice that, up to retryMost.
	retryFirst = 20 * time.Millisecond
	retryMost  = time.Second
)

// Publisher publishes events to JetStream and waits until the stream has stored them. It is safe for
// concurrent use: events are pipelined over the connection.
type Publisher struct {
	js      jetstream.JetStream
	timeout time.Duration
	stream  jetstream.StreamConfig

	mu    sync.Mutex
	roots map[string]bool // subject trees that a stream holds
}

// PublisherOption changes a [Publisher].
type PublisherOption func(*Publisher)

// PublisherJetStream sets the JetStream context to use: for a domain or an API prefix of one's own. Default:
// jetstream.New(conn).
func PublisherJetStream(js jetstream.JetStream) PublisherOption {
	return func(p *Publisher) { p.js = js }
}

// PublisherTimeout bounds a publish whose context has no deadline, and [Publisher.Publish], which has none.
// Default: 10 seconds.
func PublisherTimeout(d time.Duration) PublisherOption {
	return func(p *Publisher) { p.timeout = d }
}

// PublisherStream is the stream that is made for a topic that no stream holds; see [Source.Stream].
func PublisherStream(cfg jetstream.StreamConfig) PublisherOption {
	return func(p *Publisher) { p.stream = cfg }
}

// NewPublisher returns a Publisher. It asks the server nothing yet: a topic's stream is looked up, and made
// if no stream holds the topic, when the topic is first published to.
func NewPublisher(conn *natsgo.Conn, opts ...PublisherOption) (*Publisher, error) {
	p := &Publisher{timeout: publishTimeout, roots: map[string]bool{}}
	for _, opt := range opts {
		opt(p)
	}
	if p.stream.Name != "" {
		if err := consumer.CheckName(p.stream.Name); err != nil {
			return nil, fmt.Errorf("jsource publisher: the stream's name %w", err)
		}
	}
	if p.timeout <= 0 {
		return nil, fmt.Errorf("jsource publisher: timeout %v is not positive", p.timeout)
	}
	if p.js == nil {
		if conn == nil {
			return nil, errors.New("jsource publisher: the NATS connection is nil")
		}
		js, err := jetstream.New(conn)
		if err != nil {
			return nil, fmt.Errorf("jsource publisher: making a JetStream context: %w", err)
		}
		p.js = js
	}
	p.js = consumer.Permitted(p.js)
	return p, nil
}

// Publish stores data under subject, which ends in a topic's .created, .updated or .deleted, and returns when
// the stream has it: it is a [nats.Publisher], so that topic.PublishCreated(p, …) works. Within the
// Publisher's timeout it tries again, and the stream stores the event once. An error means that the event
// may or may not have been stored.
func (p *Publisher) Publish(subject string, data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	_, err := p.publish(ctx, subject, data, nil)
	return err
}

// Receipt says where a published event is stored.
type Receipt struct {
	Stream    string
	Sequence  uint64
	Duplicate bool // the stream had it already: a change of the same MsgID
}

// PublishOption changes how one event is published.
type PublishOption func(*publishing)

type publishing struct {
	id      string
	repeats natsgo.Header // of the message that this one repeats; nil: none
}

// MsgID sets the event's Nats-Msg-Id, by which the stream knows an event that is published twice, within its
// duplicate window (2 minutes by default). It must be the id of the change (a transaction's, an outbox
// row's), never of the resource: two changes of one resource are two events. Default: a random one for each
// call, so that a call which tries again stores one event.
func MsgID(id string) PublishOption {
	return func(p *publishing) { p.id = id }
}

// PublishCreated publishes that the resource key was created, and returns when the stream has stored that.
// ctx bounds how long it tries, the Publisher's timeout if it has no deadline; its trace goes with the event.
func PublishCreated[K comparable, T any](ctx context.Context, p *Publisher, topic nats.Topic[K, T], key K, created T,
	opts ...PublishOption,
) (Receipt, error) {
	return publishEvent(ctx, p, topic, nats.Event[K, T]{Kind: nats.Created, Key: key, New: &created}, opts)
}

// PublishUpdated publishes that the resource key changed from old to updated. See [PublishCreated].
func PublishUpdated[K comparable, T any](ctx context.Context, p *Publisher, topic nats.Topic[K, T], key K, old, updated T,
	opts ...PublishOption,
) (Receipt, error) {
	return publishEvent(ctx, p, topic, nats.Event[K, T]{Kind: nats.Updated, Key: key, Old: &old, New: &updated}, opts)
}

// PublishDeleted publishes that the resource key, which was old, is gone. See [PublishCreated].
func PublishDeleted[K comparable, T any](ctx context.Context, p *Publisher, topic nats.Topic[K, T], key K, old T,
	opts ...PublishOption,
) (Receipt, error) {
	return publishEvent(ctx, p, topic, nats.Event[K, T]{Kind: nats.Deleted, Key: key, Old: &old}, opts)
}

func publishEvent[K comparable, T any](ctx context.Context, p *Publisher, topic nats.Topic[K, T], e nats.Event[K, T],
	opts []PublishOption,
) (Receipt, error) {
	if err := topic.Validate(); err != nil {
		return Receipt{}, err
	}
	data, err := topic.Encode(e)
	if err != nil {
		return Receipt{}, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.timeout)
		defer cancel()
	}
	return p.publish(ctx, topic.SubjectOf(e.Kind), data, opts)
}

func (p *Publisher) publish(ctx context.Context, subject string, data []byte, opts []PublishOption) (Receipt, error) {
	var how publishing
	for _, opt := range opts {
		opt(&how)
	}
	own := how.id == ""
	if own {
		how.id = nuid.Next()
	}
	msg := natsgo.NewMsg(subject)
	msg.Data = data
	r, err := p.send(ctx, msg, how)
	if own {
		r.Duplicate = false // of an earlier try of this very call
	}
	return r, err
}

// send stores one event, with a span around it.
func (p *Publisher) send(ctx context.Context, msg *natsgo.Msg, how publishing) (Receipt, error) {
	root, err := rootOf(msg.Subject)
	if err != nil {
		return Receipt{}, fmt.Errorf("publishing to %q: %w", msg.Subject, err)
	}
	ctx, span := tracing.StartSend(ctx, strings.TrimSuffix(root, ".>"), tracing.Send{
		Subject: msg.Subject, ID: how.id, Size: len(msg.Data), Repeats: how.repeats,
	})
	msg.Header = tracing.Inject(ctx, msg.Header)
	r, err := p.store(ctx, root, msg, how.id)
	if err != nil {
		err = fmt.Errorf("publishing to %q: %w", msg.Subject, err)
	}
	tracing.EndSend(span, tracing.Stored{Stream: r.Stream, Sequence: r.Sequence, Duplicate: r.Duplicate}, err)
	return r, err
}

// store publishes msg until the stream has answered, the error is one that time does not mend, or ctx ends.
func (p *Publisher) store(ctx context.Context, root string, msg *natsgo.Msg, id string) (Receipt, error) {
	if err := p.provision(ctx, root, msg.Subject); err != nil {
		return Receipt{}, err
	}
	var last error
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		tctx, cancel := context.WithTimeout(ctx, answerTimeout+time.Duration(len(msg.Data))*time.Second/answerRate)
		ack, err := p.js.PublishMsg(tctx, msg, jetstream.WithMsgID(id), jetstream.WithRetryAttempts(0))
		cancel()
		if err == nil {
			return Receipt{Stream: ack.Stream, Sequence: ack.Sequence, Duplicate: ack.Duplicate}, nil
		}
		if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, natsgo.ErrNoResponders) {
			// No stream holds the topic any more, or it has no leader for the moment.
			p.forget(root)
			if perr := p.provision(ctx, root, msg.Subject); perr != nil {
				return Receipt{}, errors.Join(perr, err)
			}
		} else if errors.Is(err, jetstream.ErrInvalidJSAck) {
			err = fmt.Errorf("%w: somebody else answered; does a subscriber on %q reply to what it gets?", err, msg.Subject)
		} else if !consumer.Transient(err) {
			return Receipt{}, err
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Receipt{}, fmt.Errorf("not confirmed in time, so it may or may not be stored: %w (%w)", last, ctx.Err())
		}
	}
}

// provision sees to it that a stream holds root, of which subject is one, and that it keeps what it confirms.
func (p *Publisher) provision(ctx context.Context, root, subject string) error {
	p.mu.Lock()
	known := p.roots[root]
	p.mu.Unlock()
	if known {
		return nil
	}
	covers := make([]string, len(allKinds))
	for i, kind := range allKinds {
		covers[i] = strings.TrimSuffix(root, ">") + string(kind)
	}
	err := reach(ctx, p.js)
	if err == nil {
		err = consumer.Retry(ctx, func(ctx context.Context) error {
			name, err := p.js.StreamNameBySubject(ctx, subject)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				_, err = consumer.ProvisionStream(ctx, p.js, consumer.TopicStream(p.stream, root, covers, false))
				return err
			}
			if err != nil {
				return err
			}
			return p.fit(ctx, name)
		})
	}
	if err != nil {
		return fmt.Errorf("seeing to the stream of %q: %w", root, err)
	}
	p.mu.Lock()
	p.roots[root] = true
	p.mu.Unlock()
	return nil
}

// fit refuses a stream that does not confirm what it stores, or confirms what it does not.
func (p *Publisher) fit(ctx context.Context, name string) error {
	stream, err := p.js.Stream(ctx, name)
	if err != nil {
		return fmt.Errorf("looking up stream %q: %w", name, err)
	}
	switch cfg := &stream.CachedInfo().Config; {
	case cfg.NoAck:
		return fmt.Errorf("stream %q cannot be used: its no_ack is true, and nobody is told what it has stored", name)
	case cfg.Retention == jetstream.InterestPolicy:
		return fmt.Errorf("stream %q cannot be used: its retention is %v, and it confirms events that it does not store",
			name, cfg.Retention)
	}
	return nil
}

func (p *Publisher) forget(root string) {
	p.mu.Lock()
	delete(p.roots, root)
	p.mu.Unlock()
}
