package queue_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/levelstream/jsource/queue"
)

// model is the account that the Tracker should keep, in sets.
type model struct {
	groups   []*modelGroup
	messages []*modelMessage // in the order in which they were registered
	running  []*modelAttempt
}

type modelGroup struct {
	*queue.Group[string]
	queue.GroupOptions
	stopped bool
}

type modelMessage struct {
	*msg
	group  *modelGroup
	owed   bool            // neither settled nor forgotten
	owes   map[string]bool // request → it died and is not buried yet
	failed map[string]int
	buried bool
	want   []string
}

type modelAttempt struct {
	queue.Attempt[string]
	covers []*modelMessage // the snapshot
}

// owing yields the messages that owe req alive, of g or of any group if that is nil.
func (m *model) owing(g *modelGroup, req string) (found []*modelMessage) {
	for _, e := range m.messages {
		if dying, owes := e.owes[req]; owes && !dying && e.owed && (g == nil || e.group == g) {
			found = append(found, e)
		}
	}
	return found
}

func (m *model) register(g *modelGroup, e *msg, reqs []string) {
	n := &modelMessage{msg: e, group: g, owed: true, owes: map[string]bool{}, failed: map[string]int{}}
	for _, req := range reqs {
		if older := m.owing(g, req); g.Supersede && len(older) > 0 {
			n.failed[req] = older[len(older)-1].failed[req]
		}
		n.owes[req] = false
	}
	m.messages = append(m.messages, n)
	m.settle()
}

func (m *model) snapshot(req string) []*modelMessage {
	return slices.DeleteFunc(m.owing(nil, req), func(e *modelMessage) bool { return e.group.stopped })
}

// end ends an attempt on req that covers these.
func (m *model) end(req string, covers []*modelMessage, o queue.Outcome, err error) {
	for _, e := range covers {
		if dying, owes := e.owes[req]; !owes || dying || !e.owed {
			continue
		}
		switch o {
		case queue.Success:
			delete(e.owes, req)
		case queue.Failed, queue.Dead:
			e.failed[req]++
			if o == queue.Dead || e.group.MaxAttempts > 0 && e.failed[req] >= e.group.MaxAttempts {
				e.owes[req] = true
				e.want = append(e.want, died(req, err, e.failed[req], o == queue.Dead))
			}
		}
	}
	m.settle()
}

func (m *model) bury(e *modelMessage, req string) {
	if e.owed && e.owes[req] {
		delete(e.owes, req)
		e.buried = true
		m.settle()
	}
}

// settle settles every message that owes nothing, or nothing that newer ones do not owe too.
func (m *model) settle() {
	for i, e := range m.messages {
		if !e.owed {
			continue
		}
		last, superseded := -1, e.group.Supersede
		for req, dying := range e.owes {
			owing := m.owing(e.group, req)
			if dying || owing[len(owing)-1] == e {
				superseded = false
				break
			}
			last = max(last, slices.Index(m.messages, owing[len(owing)-1]))
		}
		switch {
		case len(e.owes) == 0 && e.buried:
			e.want = append(e.want, "settled, buried")
		case len(e.owes) == 0:
			e.want = append(e.want, "settled")
		case superseded && last > i:
			e.want = append(e.want, "superseded by "+m.messages[last].name)
		default:
			continue
		}
		e.owed = false
	}
}

// waits reports whether e owes a request that no running attempt can settle, and whether it owes one
// on which none is running at all.
func (m *model) waits(e *modelMessage) (uncovered, idle bool) {
	for req, dying := range e.owes {
		if !e.owed || dying {
			continue
		}
		covered, busy := false, false
		for _, a := range m.running {
			if a.Request() == req {
				busy = true
				covered = covered || slices.Contains(a.covers, e)
			}
		}
		uncovered, idle = uncovered || !covered, idle || !busy
	}
	return uncovered, idle
}

var (
	modelRequests = []string{"a", "b", "c", "d", "e"}
	modelOutcomes = []queue.Outcome{queue.Success, queue.Unfinished, queue.Failed, queue.Cut, queue.Dead}
)

// TestTracker_KeepsTheAccountOfAModel checks the Tracker, step by step, against a model of sets.
func TestTracker_KeepsTheAccountOfAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tracker := queue.NewTracker[string]()
		m := &model{}
		for i := range 2 {
			o := queue.GroupOptions{
				MaxAttempts: rapid.IntRange(0, 3).Draw(t, fmt.Sprintf("MaxAttempts of %d", i)),
				Supersede:   rapid.Bool().Draw(t, fmt.Sprintf("Supersede of %d", i)),
			}
			m.groups = append(m.groups, &modelGroup{Group: tracker.NewGroup(o), GroupOptions: o})
		}

		register := func(t *rapid.T, g *modelGroup, reqs []string) {
			e := &msg{name: fmt.Sprintf("m%d", len(m.messages))}
			equal(t, "owed after Register", g.Register(&e.Entry, e, reqs), !g.stopped)
			if !g.stopped {
				m.register(g, e, reqs)
			}
		}
		draw := func(t *rapid.T) (*modelGroup, []string) {
			return rapid.SampledFrom(m.groups).Draw(t, "group"),
				rapid.SliceOfN(rapid.SampledFrom(modelRequests), 1, 4).Draw(t, "requests")
		}
		anyMessage := func(t *rapid.T) *modelMessage {
			if len(m.messages) == 0 {
				t.Skip("no message yet")
			}
			return rapid.SampledFrom(m.messages).Draw(t, "message")
		}
		end := func(i int, o queue.Outcome) {
			a := m.running[i]
			m.running = slices.Delete(m.running, i, i+1)
			err := fmt.Errorf("%s ended %v", a.Request(), o)
			a.End(o, err)
			m.end(a.Request(), a.covers, o, err)
		}
		begin := func(req string) *modelAttempt {
			a := &modelAttempt{Attempt: tracker.Begin(req), covers: m.snapshot(req)}
			m.running = append(m.running, a)
			return a
		}

		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				g, reqs := draw(t)
				register(t, g, reqs)
			},
			"begin": func(t *rapid.T) {
				a := begin(rapid.SampledFrom(modelRequests).Draw(t, "request"))
				equal(t, "owed when it began", a.Owed(), len(m.owing(nil, a.Request())))
			},
			"end": func(t *rapid.T) {
				if len(m.running) == 0 {
					t.Skip("nothing runs")
				}
				end(rapid.IntRange(0, len(m.running)-1).Draw(t, "attempt"),
					rapid.SampledFrom(modelOutcomes).Draw(t, "outcome"))
			},
			"wrap": func(t *rapid.T) {
				req := rapid.SampledFrom(modelRequests).Draw(t, "request")
				panics := rapid.Bool().Draw(t, "panics")
				g, reqs := draw(t)
				covers := m.snapshot(req)
				wrapped := queue.Wrap(tracker, func(context.Context, string) (int, error) {
					register(t, g, append(reqs, req)) // while the attempt runs: not covered by it
					if panics {
						panic("ouch")
					}
					return 0, nil
				})
				func() {
					defer func() { equal(t, "a panic went on", recover() != nil, panics) }()
					_, _ = wrapped(t.Context(), req)
				}()
				if panics {
					m.end(req, covers, queue.Failed, errors.New("panic: ouch"))
				} else {
					m.end(req, covers, queue.Success, nil)
				}
			},
			"bury": func(t *rapid.T) {
				e := anyMessage(t)
				req := rapid.SampledFrom(modelRequests).Draw(t, "request")
				e.Buried(req)
				m.bury(e, req)
			},
			"redeliver": func(t *rapid.T) {
				e := anyMessage(t)
				equal(t, "owed until Forget", e.Forget(), e.owed)
				e.owed = false
				reqs := slices.Sorted(maps.Keys(e.owes))
				if len(reqs) > 0 && rapid.Bool().Draw(t, "redelivered") {
					register(t, e.group, reqs)
				}
			},
			"stop": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "stops at 0") == 0 {
					g := rapid.SampledFrom(m.groups).Draw(t, "group")
					g.Stop()
					g.stopped = true
				}
			},
			"abandon": func(t *rapid.T) {
				e := anyMessage(t)
				if !e.group.stopped {
					t.Skip("its group is not stopped")
				}
				all := rapid.Bool().Draw(t, "all")
				uncovered, idle := m.waits(e)
				switch abandoned := e.group.Abandon(&e.Entry, all); {
				case abandoned && !e.owed:
					t.Fatalf("%s was not owed any more, and yet it was abandoned", e.name)
				case abandoned && !all && !uncovered:
					t.Fatalf("%s was abandoned while attempts that cover all of it run", e.name)
				case !abandoned && e.owed && (all || idle):
					t.Fatalf("%s was not abandoned", e.name)
				default:
					e.owed = e.owed && !abandoned
				}
			},
			"": func(t *rapid.T) { m.check(t, tracker) },
		})

		// Whatever happened: once all is settled or forgotten, nothing is left.
		for len(m.running) > 0 {
			end(0, queue.Success)
		}
		for _, e := range m.messages {
			if e.group.stopped {
				e.Forget()
				e.owed = false
			}
		}
		for _, req := range modelRequests {
			begin(req)
			end(0, queue.Success)
			for _, e := range m.messages {
				e.Buried(req)
				m.bury(e, req)
			}
		}
		m.check(t, tracker)
		for _, e := range m.messages {
			equal(t, e.name+" is owed at the end", e.owed, false)
		}
		equal(t, "requests that hold memory at the end", tracker.Records(), 0)
	})
}

// check compares all that the Tracker says with the model.
func (m *model) check(t *rapid.T, tracker *queue.Tracker[string]) {
	owed := 0
	for _, req := range modelRequests {
		owes := len(m.owing(nil, req)) > 0
		equal(t, "owed: "+req, tracker.Owes(req), owes)
		if owes {
			owed++
		}
	}
	equal(t, "requests owed", tracker.Owed(), owed)
	for _, g := range m.groups {
		m.checkHolding(t, g)
	}
	for _, e := range m.messages {
		e.msg.expect(t, e.want...)
		e.want = nil

		owes := map[string]bool{}
		for _, req := range e.Owes() {
			equal(t, e.name+" owes a request twice", owes[req], false)
			owes[req] = true
		}
		for req := range e.owes {
			equal(t, e.name+" owes "+req, owes[req], e.owed)
			delete(owes, req)
		}
		equal(t, "requests that it does not owe", len(owes), 0)

		uncovered, idle := m.waits(e)
		switch waiting := e.Waiting(); {
		case waiting && !uncovered:
			t.Fatalf("%s is waiting, yet attempts that cover all of it are running", e.name)
		case !waiting && idle:
			t.Fatalf("%s is not waiting, yet no attempt runs on some of what it owes", e.name)
		}
	}
}

func (m *model) checkHolding(t *rapid.T, g *modelGroup) {
	holds := map[string]int{}
	for _, h := range g.Holding(100) {
		holds[h.Request] = h.Messages
	}
	for _, req := range modelRequests {
		equal(t, "messages that hold "+req, holds[req], len(m.owing(g, req)))
	}
}
