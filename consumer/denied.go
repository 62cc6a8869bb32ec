package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// DeniedError says what the server does not permit the connection's user to do. It is a
// [nats.ErrPermissionViolation].
type DeniedError struct {
	Verb    string // "publish" or "subscribe"
	Subject string // to what
	Need    string // what for: "to look a stream up"
	Err     error  // as the server said it
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("the server denies permission to %s to %q, needed %s: allow the connection's user to (%v)",
		e.Verb, e.Subject, e.Need, e.Err)
}

func (e *DeniedError) Unwrap() error { return e.Err }

const (
	// denialPoll is how often it is looked whether the server has denied what an answer is awaited for.
	denialPoll = 20 * time.Millisecond
	// deafBound bounds how long it takes to find out whether answers can arrive at all.
	deafBound = 500 * time.Millisecond

	needAnswers = "for the server's answers to arrive"
)

// The server answers nothing to a request that it denies. It says so on the connection, which keeps the last
// such error, a new one each time.

// allowed makes one request, which publishes to subject (or to one below it), and ends it as soon as the server
// denies that. The error is then a [DeniedError], which says what the request was needed for.
func allowed[T any](ctx context.Context, js *permitted, subject, need string, request func(context.Context) (T, error)) (answer T, err error) {
	conn := js.Conn()
	if err := js.listen(); err != nil {
		return answer, err
	}
	before := conn.LastError()
	denied := func() error {
		last := conn.LastError()
		if last == before { //nolint:errorlint // the very same error
			return nil
		}
		return denial(conn, last, subject, need)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var timer atomic.Pointer[time.Timer]
	timer.Store(time.AfterFunc(denialPoll, func() {
		if err := denied(); err != nil {
			cancel(err)
		}
		if t := timer.Load(); t != nil && ctx.Err() == nil {
			t.Reset(denialPoll)
		}
	}))
	answer, err = request(ctx)
	if t := timer.Swap(nil); t != nil {
		t.Stop()
	}
	if err == nil || !Transient(err) && !errors.Is(err, context.Canceled) {
		return answer, err
	}
	d := denied()
	if d == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)) {
		d = deaf(conn)
	}
	if d == nil {
		return answer, err
	}
	if verb, _ := violation(d); verb == "subscribe" {
		js.deaf.Store(1 + conn.Stats().Reconnects)
	}
	return answer, d
}

// listen sees to it that answers arrive again once the connection may listen for them: the client asks to listen
// only with its first request and with each new connection to a server, so it takes such a one.
func (p *permitted) listen() error {
	conn := p.Conn()
	since := p.deaf.Load()
	if since == 0 {
		return nil
	}
	if since == 1+conn.Stats().Reconnects {
		if err := deaf(conn); err != nil {
			return err
		}
		_ = conn.ForceReconnect() // fails on a connection that is closed
	}
	p.deaf.CompareAndSwap(since, 0)
	return nil
}

// denial is what err, the last of a connection, denies, if that is to publish to subject or to listen for
// answers; nil if it is something else.
func denial(conn *nats.Conn, err error, subject, need string) error {
	verb, about := violation(err)
	switch {
	case verb == "publish" && (about == subject || strings.HasPrefix(about, subject+".")):
		return &DeniedError{Verb: verb, Subject: about, Need: need, Err: err}
	case verb == "subscribe" && strings.HasPrefix(about, inboxes(conn)):
		return &DeniedError{Verb: verb, Subject: about, Need: needAnswers, Err: err}
	}
	return nil
}

// violation reads what the server denied: "publish" or "subscribe", and the subject. Both are "" if err is no
// such thing.
func violation(err error) (verb, subject string) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return "", ""
	}
	text := err.Error()
	for verb, words := range map[string]string{"publish": `for Publish to "`, "subscribe": `for Subscription to "`} {
		if _, rest, ok := strings.Cut(text, words); ok {
			subject, _, _ = strings.Cut(rest, `"`)
			return verb, subject
		}
	}
	return "", ""
}

// inboxes is what the connection's inboxes begin with.
func inboxes(conn *nats.Conn) string {
	if prefix := conn.Opts.InboxPrefix; prefix != "" {
		return prefix + "."
	}
	return nats.InboxPrefix
}

// deaf returns an error if the connection may not listen for answers. The client asks to listen once, with its
// first request, so what the server said then may be long gone.
func deaf(conn *nats.Conn) error {
	before := conn.LastError()
	sub, err := conn.SubscribeSync(conn.NewInbox() + ".*")
	if err != nil {
		return nil // the connection is closed
	}
	defer func() { _ = sub.Unsubscribe() }()
	// The server denies a subscription before it answers the flush.
	if conn.FlushTimeout(deafBound) != nil {
		return nil // it does not answer anything
	}
	if last := conn.LastError(); last != before { //nolint:errorlint // the very same error
		return denial(conn, last, sub.Subject, "")
	}
	return nil
}

// denials are what the server denies a running Consumer. The consumer's mu guards it.
type denials struct {
	seen               error // the connection's last error when it was last looked at
	pull, settle, hear error
}

// noticeDenials takes in what the server has denied of what the Consumer sends without waiting for an answer.
func (c *Consumer) noticeDenials() {
	last := c.conn.LastError()
	c.mu.Lock()
	if last == c.denials.seen { //nolint:errorlint // the very same error
		c.mu.Unlock()
		return
	}
	c.denials.seen = last
	verb, about := violation(last)
	d := &DeniedError{Verb: verb, Subject: about, Err: last}
	var slot *error
	switch {
	case verb == "subscribe" && strings.HasPrefix(about, c.inbox+"."):
		slot, d.Need = &c.denials.hear, needAnswers
	case verb == "publish" && about == c.nextSubject():
		slot, d.Need = &c.denials.pull, "to ask for messages"
	case verb == "publish" && c.isReply(about):
		slot, d.Need = &c.denials.settle, "to settle messages and to keep them while they are worked on"
	}
	isNew := slot != nil && *slot == nil
	if slot != nil {
		*slot = d
	}
	c.mu.Unlock()
	if isNew {
		c.call("the server denies permission")
	}
}

// isReply reports whether settlements of this Consumer are sent to subject.
func (c *Consumer) isReply(subject string) bool {
	_, err := parseReply(subject)
	return err == nil && strings.Contains(subject, "."+c.stream+"."+c.durable.Durable+".")
}

// denied is what the server denies, as far as is known. The caller holds mu.
func (c *Consumer) denied() error {
	return errors.Join(c.denials.hear, c.denials.pull, c.denials.settle)
}
