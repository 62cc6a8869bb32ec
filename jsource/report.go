package jsource

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Report is how one durable is doing: what the server says, and what those replicas say that answer.
type Report struct {
	Stream      string    `json:"stream"`
	Durable     string    `json:"durable"`
	Controller  string    `json:"controller,omitempty"`
	Topic       string    `json:"topic,omitempty"`
	Pending     uint64    `json:"pending"`         // stored and not handed out yet
	Unsettled   int       `json:"unsettled"`       // handed out and not settled
	Redelivered int       `json:"redelivered"`     // of those, handed out more than once
	Oldest      time.Time `json:"oldest,omitzero"` // when the oldest event that is not settled was stored; zero: all are
	Dead        uint64    `json:"dead"`            // dead letters that are kept
	Replicas    []Replica `json:"replicas"`
}

// Replica is what one process says of its part.
type Replica struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Err     string `json:"error,omitempty"` // what is wrong; "" if it is consuming
	Held    int    `json:"held"`            // messages that it holds
	Holding []Held `json:"holding"`         // the requests that have held them longest
}

// Held says what one request holds up; see [Hold].
type Held struct {
	Request  string    `json:"request"`
	Messages int       `json:"messages"`
	Since    time.Time `json:"since"`
	Attempts int       `json:"attempts"` // failed, in a row
	LastErr  string    `json:"lastError,omitempty"`
	Running  bool      `json:"running"`
}

const (
	// A replica names at most this many requests when it is asked.
	answered = 20
	// How long Reports waits for a first replica's answer, and after each for another's.
	answerFirst = time.Second
	answerMore  = 250 * time.Millisecond
)

// statusSubject is where every replica of a durable answers with a Replica.
func statusSubject(stream, durable string) string { return "jsource.status." + stream + "." + durable }

// answer makes the source answer those who ask how it is doing. It returns a function that ends that.
func (r *run[K, T, request]) answer() (end func(), err error) {
	host, _ := os.Hostname() // "" says it too
	sub, err := r.js.Conn().Subscribe(statusSubject(r.consumer.Stream(), r.durable), func(m *natsgo.Msg) {
		st := r.src.Status(answered)
		replica := Replica{Host: host, PID: os.Getpid(), Err: plain(st.Err), Held: st.Held, Holding: held(st.Holding)}
		data, err := json.Marshal(replica)
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			r.log.Warn("somebody asked for the status and got no answer", "error", err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("subscribing to be asked for the status: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails when the connection is closed, and then it has ended too
}

// Reports says how the durables are doing that sources made, in order of stream and name. Those used with
// [Source.Bind] are not among them: ask for each with [Admin.Report].
func (a *Admin) Reports(ctx context.Context) ([]Report, error) {
	list := []Report{}
	for info, err := range a.ours(ctx) {
		if err != nil {
			return nil, err
		}
		r, err := a.report(ctx, info)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Durable, b.Durable))
	})
	return list, nil
}

// Report says how one durable is doing.
func (a *Admin) Report(ctx context.Context, stream, durable string) (Report, error) {
	cons, err := a.js.Consumer(ctx, stream, durable)
	if err != nil {
		return Report{}, fmt.Errorf("looking up durable %q of stream %q: %w", durable, stream, err)
	}
	return a.report(ctx, cons.CachedInfo())
}

func (a *Admin) report(ctx context.Context, info *jetstream.ConsumerInfo) (Report, error) {
	r := Report{
		Stream: info.Stream, Durable: info.Name, Pending: info.NumPending, Unsettled: info.NumAckPending, Redelivered: info.NumRedelivered,
		Controller: info.Config.Metadata[metaController], Topic: info.Config.Metadata[metaTopic],
	}
	fail := func(what string, err error) (Report, error) {
		return Report{}, fmt.Errorf("%s durable %q of stream %q: %w", what, info.Name, info.Stream, err)
	}
	stream, err := a.js.Stream(ctx, info.Stream)
	if err != nil {
		return fail("looking up the stream of", err)
	}
	oldest, err := afterFloor(ctx, stream, info)
	if err != nil {
		return fail("looking for the oldest unsettled event of", err)
	}
	if oldest != nil {
		r.Oldest = oldest.Time
	}
	prefix := info.Config.Metadata[metaDead]
	if prefix == "" {
		prefix = defaultDeadPrefix
	}
	if r.Dead, err = a.count(ctx, deadTree(prefix, info.Stream+"."+info.Name)); err != nil {
		return fail("counting the dead letters of", err)
	}
	if r.Replicas, err = a.ask(ctx, info); err != nil {
		return fail("asking the replicas of", err)
	}
	return r, nil
}

// count is the number of messages on a subject tree.
func (a *Admin) count(ctx context.Context, tree string) (n uint64, _ error) {
	name, err := a.js.StreamNameBySubject(ctx, tree)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	stream, err := a.js.Stream(ctx, name)
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(tree))
	if err != nil {
		return 0, err
	}
	for _, on := range info.State.Subjects {
		n += on
	}
	return n, nil
}

// ask asks the replicas of a durable how they are doing, and waits for as many answers as come.
func (a *Admin) ask(ctx context.Context, info *jetstream.ConsumerInfo) ([]Replica, error) {
	conn := a.js.Conn()
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }()
		err = conn.PublishRequest(statusSubject(info.Stream, info.Name), inbox, nil)
	}
	if err != nil {
		return nil, err
	}
	list := []Replica{}
	for wait := answerFirst; ; {
		tctx, cancel := context.WithTimeout(ctx, wait)
		msg, err := sub.NextMsgWithContext(tctx)
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			break // nobody is there, or nobody else
		}
		var r Replica
		if json.Unmarshal(msg.Data, &r) != nil || r.PID == 0 {
			continue // a stream on every subject stores the question, and says so
		}
		list = append(list, r)
		wait = answerMore
	}
	slices.SortFunc(list, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID))
	})
	return list, nil
}
