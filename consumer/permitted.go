package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Permitted returns js such that requests which the server denies fail at once with a [DeniedError] instead of
// timing out. It is for those requests that this module makes; the others are as they were.
func Permitted(js jetstream.JetStream) jetstream.JetStream { return permit(js) }

func permit(js jetstream.JetStream) *permitted {
	if p, ok := js.(*permitted); ok {
		return p
	}
	return &permitted{JetStream: js, api: apiPrefix(js)}
}

// permitted is a JetStream that says what is denied.
type permitted struct {
	jetstream.JetStream
	api  string        // what the subjects of requests begin with
	deaf atomic.Uint64 // answers cannot arrive: 1 + how often the connection had reconnected by then; 0: they can
}

const (
	needStream  = "to look a stream up"
	needDurable = "to look a durable up"
	needMake    = "to make a durable or to update it"
	needRead    = "to read messages of a stream"
)

// Stream is the request of that name.
func (p *permitted) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := allowed(ctx, p, p.api+"STREAM.INFO."+name, needStream, func(ctx context.Context) (jetstream.Stream, error) {
		return p.JetStream.Stream(ctx, name)
	})
	if err != nil {
		return nil, err
	}
	return &permittedStream{Stream: s, js: p, name: name}, nil
}

// CreateStream is the request of that name.
func (p *permitted) CreateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := allowed(ctx, p, p.api+"STREAM.CREATE."+cfg.Name, "to make a stream",
		func(ctx context.Context) (jetstream.Stream, error) { return p.JetStream.CreateStream(ctx, cfg) })
	if err != nil {
		return nil, err
	}
	return &permittedStream{Stream: s, js: p, name: cfg.Name}, nil
}

const needNames = "to find the stream that holds a subject"

// StreamNameBySubject is the request of that name.
func (p *permitted) StreamNameBySubject(ctx context.Context, subject string) (string, error) {
	return allowed(ctx, p, p.api+"STREAM.NAMES", needNames, func(ctx context.Context) (string, error) {
		return p.JetStream.StreamNameBySubject(ctx, subject)
	})
}

// streamNames are the names of the streams that hold subject.
func (p *permitted) streamNames(ctx context.Context, subject string) ([]string, error) {
	return allowed(ctx, p, p.api+"STREAM.NAMES", needNames, func(ctx context.Context) (names []string, err error) {
		lister := p.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
		for name := range lister.Name() {
			names = append(names, name)
		}
		return names, lister.Err()
	})
}

// Consumer is the request of that name.
func (p *permitted) Consumer(ctx context.Context, stream, durable string) (jetstream.Consumer, error) {
	return allowed(ctx, p, p.api+"CONSUMER.INFO."+stream+"."+durable, needDurable,
		func(ctx context.Context) (jetstream.Consumer, error) {
			return p.JetStream.Consumer(ctx, stream, durable)
		})
}

// UpdateConsumer is the request of that name.
func (p *permitted) UpdateConsumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return allowed(ctx, p, p.api+"CONSUMER.CREATE."+stream+"."+cfg.Durable, needMake,
		func(ctx context.Context) (jetstream.Consumer, error) {
			return p.JetStream.UpdateConsumer(ctx, stream, cfg)
		})
}

// headersTooLarge is the server's code for a message whose headers alone are too large for a stream.
const headersTooLarge jetstream.ErrorCode = 10097

// PublishMsg is the request of that name. Headers that are too large are a [nats.ErrMaxPayload] as well, so that
// whoever makes do with less when a message is too large does so then.
func (p *permitted) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ack, err := allowed(ctx, p, msg.Subject, "to have it stored in a stream", func(ctx context.Context) (*jetstream.PubAck, error) {
		return p.JetStream.PublishMsg(ctx, msg, opts...)
	})
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == headersTooLarge {
		err = fmt.Errorf("%w: %w", nats.ErrMaxPayload, err)
	}
	return ack, err
}

// permittedStream is a Stream that says what is denied.
type permittedStream struct {
	jetstream.Stream
	js   *permitted
	name string
}

// Info is the request of that name.
func (s *permittedStream) Info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return allowed(ctx, s.js, s.js.api+"STREAM.INFO."+s.name, needStream,
		func(ctx context.Context) (*jetstream.StreamInfo, error) { return s.Stream.Info(ctx, opts...) })
}

// Consumer is the request of that name.
func (s *permittedStream) Consumer(ctx context.Context, durable string) (jetstream.Consumer, error) {
	return allowed(ctx, s.js, s.js.api+"CONSUMER.INFO."+s.name+"."+durable, needDurable,
		func(ctx context.Context) (jetstream.Consumer, error) { return s.Stream.Consumer(ctx, durable) })
}

// CreateConsumer is the request of that name.
func (s *permittedStream) CreateConsumer(ctx context.Context, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return allowed(ctx, s.js, s.js.api+"CONSUMER.CREATE."+s.name+"."+cfg.Durable, needMake,
		func(ctx context.Context) (jetstream.Consumer, error) { return s.Stream.CreateConsumer(ctx, cfg) })
}

// GetMsg is the request of that name.
func (s *permittedStream) GetMsg(ctx context.Context, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	return allowed(ctx, s.js, s.readSubject(), needRead,
		func(ctx context.Context) (*jetstream.RawStreamMsg, error) { return s.Stream.GetMsg(ctx, seq, opts...) })
}

// GetLastMsgForSubject is the request of that name.
func (s *permittedStream) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	return allowed(ctx, s.js, s.readSubject(), needRead,
		func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
			return s.Stream.GetLastMsgForSubject(ctx, subject)
		})
}

// readSubject is where requests for messages are sent: any replica may answer those of a stream that allows it.
func (s *permittedStream) readSubject() string {
	if s.CachedInfo().Config.AllowDirect {
		return s.js.api + "DIRECT.GET." + s.name
	}
	return s.js.api + "STREAM.MSG.GET." + s.name
}
