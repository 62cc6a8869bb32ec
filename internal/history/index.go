package history

import (
	"cmp"
	"slices"
	"time"
)

// index is a history sorted by what the rules ask for.
type index struct {
	*History
	calls    map[uint64]*Publish
	changes  map[uint64]time.Duration // when a change was first about to be published
	messages map[ID]*message
	order    []*message
	byChange map[uint64][]*message
	bySeq    map[uint64][]*message
	lates    map[ID][]*Late
	// byRequest has the messages that owe a request; only if some are superseded.
	byRequest map[string][]*message
	attempts  map[string]map[string][]*Attempt // by request, then by replica; by Begin
	answers   map[string][]*Answer             // by reply
	beats     map[string][]round               // by replica
	asking    map[string][]*Signal             // the heartbeats that want an answer, by replica
}

// message is all that is known of one message.
type message struct {
	id      ID
	call    uint64
	publish *Publish // nil: nobody has published it
	final   bool     // it is in the stream at the end
	views   map[string]*view
	order   []*view
}

// view is what one replica and one message had to do with each other.
type view struct {
	replica    string
	message    *message
	deliveries []*Delivery
	signals    []*Signal // as sent
	letters    []*Letter
	mappings   []*Mapping // by Begin
}

// round is one confirmed round of heartbeats of a replica: the heartbeat that was answered, and when.
type round struct {
	beat     *Signal
	answered time.Duration
}

func newIndex(h *History) *index {
	x := &index{
		History:  h,
		calls:    map[uint64]*Publish{},
		changes:  map[uint64]time.Duration{},
		messages: map[ID]*message{},
		byChange: map[uint64][]*message{},
		bySeq:    map[uint64][]*message{},
		lates:    map[ID][]*Late{},

		byRequest: map[string][]*message{},
		attempts:  map[string]map[string][]*Attempt{},
		answers:   map[string][]*Answer{},
		beats:     map[string][]round{},
		asking:    map[string][]*Signal{},
	}
	for i := range h.Publishes {
		p := &h.Publishes[i]
		x.calls[p.Call] = p
		if first, ok := x.changes[p.Change]; !ok || p.Begin < first {
			x.changes[p.Change] = p.Begin
		}
	}
	for i := range h.Answers {
		a := &h.Answers[i]
		x.answers[a.Reply] = append(x.answers[a.Reply], a)
	}
	for i := range h.Lates {
		l := &h.Lates[i]
		x.lates[l.Message] = append(x.lates[l.Message], l)
	}
	x.indexMessages()
	x.indexAttempts()
	return x
}

func (x *index) indexMessages() {
	for i := range x.Final.Stored {
		s := &x.Final.Stored[i]
		m := x.message(s.Message, s.Call)
		m.final = true
	}
	byCall := map[uint64][]*message{}
	for i := range x.Deliveries {
		d := &x.Deliveries[i]
		v := x.message(d.Message, d.Call).view(d.Replica)
		v.deliveries = append(v.deliveries, d)
	}
	for _, m := range x.order {
		m.publish = x.calls[m.call]
		byCall[m.call] = append(byCall[m.call], m)
		x.bySeq[m.id.Seq] = append(x.bySeq[m.id.Seq], m)
		if m.publish != nil {
			x.byChange[m.publish.Change] = append(x.byChange[m.publish.Change], m)
			for _, req := range m.publish.Owes {
				if x.Supersede {
					x.byRequest[req] = append(x.byRequest[req], m)
				}
			}
		}
	}

	signals := make([]*Signal, len(x.Signals))
	for i := range x.Signals {
		signals[i] = &x.Signals[i]
	}
	// A replica has one connection at a time, so this is the order in which it sent them, also where
	// bytes of a connection it has left were recorded after those of the next.
	slices.SortStableFunc(signals, func(a, b *Signal) int {
		return cmp.Or(cmp.Compare(a.Replica, b.Replica), cmp.Compare(a.Link, b.Link))
	})
	for _, s := range signals {
		v := x.message(s.Message, 0).view(s.Replica)
		v.signals = append(v.signals, s)
		if s.Kind != Beat || s.Reply == "" {
			continue
		}
		x.asking[s.Replica] = append(x.asking[s.Replica], s)
		for _, a := range x.answers[s.Reply] {
			if !a.Refused && a.At >= s.At {
				x.beats[s.Replica] = append(x.beats[s.Replica], round{beat: s, answered: a.At})
				break
			}
		}
	}
	for i := range x.Letters {
		l := &x.Letters[i]
		v := x.message(l.Message, 0).view(l.Replica)
		v.letters = append(v.letters, l)
	}
	for i := range x.Mappings {
		m := &x.Mappings[i]
		// One call is one message, unless a wipe came between two tries of it: then the mapping
		// counts for both, since nobody can tell.
		for _, msg := range byCall[m.Call] {
			if v := msg.views[m.Replica]; v != nil {
				v.mappings = append(v.mappings, m)
			}
		}
	}
	for _, m := range x.order {
		for _, v := range m.order {
			slices.SortStableFunc(v.mappings, func(a, b *Mapping) int { return cmp.Compare(a.Begin, b.Begin) })
		}
	}
}

func (x *index) indexAttempts() {
	for i := range x.Attempts {
		a := &x.Attempts[i]
		if x.attempts[a.Request] == nil {
			x.attempts[a.Request] = map[string][]*Attempt{}
		}
		x.attempts[a.Request][a.Replica] = append(x.attempts[a.Request][a.Replica], a)
	}
	for _, replicas := range x.attempts {
		for _, list := range replicas {
			slices.SortStableFunc(list, func(a, b *Attempt) int { return cmp.Compare(a.Begin, b.Begin) })
		}
	}
}

// message returns the message of that identity, made if need be.
func (x *index) message(id ID, call uint64) *message {
	m := x.messages[id]
	if m == nil {
		m = &message{id: id, views: map[string]*view{}}
		x.messages[id] = m
		x.order = append(x.order, m)
	}
	if call != 0 {
		m.call = call
	}
	return m
}

func (m *message) view(replica string) *view {
	v := m.views[replica]
	if v == nil {
		v = &view{replica: replica, message: m}
		m.views[replica] = v
		m.order = append(m.order, v)
	}
	return v
}

// ambiguous reports whether one call stands for several messages, so that a mapping cannot be told to be
// of this one.
func (x *index) ambiguous() map[uint64]bool {
	seen, twice := map[uint64]bool{}, map[uint64]bool{}
	for _, m := range x.order {
		if m.call != 0 && seen[m.call] {
			twice[m.call] = true
		}
		seen[m.call] = true
	}
	return twice
}

// after yields the attempts of the list, which is by Begin, that began at or after from.
func after(list []*Attempt, from time.Duration) []*Attempt {
	i, _ := slices.BinarySearchFunc(list, from, func(a *Attempt, t time.Duration) int { return cmp.Compare(a.Begin, t) })
	return list[i:]
}

// confirmed is when the server first answered what was sent with that reply, without refusing; 0 if it
// did not.
func (x *index) confirmed(reply string) time.Duration {
	if reply == "" {
		return 0
	}
	for _, a := range x.answers[reply] {
		if !a.Refused {
			return a.At
		}
	}
	return 0
}

// received is when the replica has received what was handed to it at that time, at the latest: when it goes
// on, if it was paused then, or so soon after that it may not have read it.
func (x *index) received(replica string, handed time.Duration) time.Duration {
	for _, p := range x.Pauses {
		if p.Replica == replica && handed >= p.Begin-x.Slack && handed <= p.End {
			return p.End
		}
	}
	return handed
}

// resumed is how long after a pause what was on its way before it is still sent.
const resumed = 100 * time.Millisecond

// sent is when the replica sent what was recorded at that time, at the earliest: before a pause that has
// just ended, if there was one.
func (x *index) sent(replica string, recorded time.Duration) time.Duration {
	for _, p := range x.Pauses {
		if p.Replica == replica && recorded >= p.Begin && recorded <= p.End+resumed {
			return p.Begin
		}
	}
	return recorded
}
