package history_test

import (
	"strings"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/history"
)

const (
	ack  = history.Ack
	term = history.Term
	nak  = history.Nak
	beat = history.Beat
)

// TestCleanHistories tells what may happen and violates nothing.
func TestCleanHistories(t *testing.T) {
	for name, tell := range map[string]func(s *story){
		"reconciled": func(s *story) {
			s.publish(1, "a")
			s.reconcile("r", 1, "a")
		},
		"rounds of heartbeats that a slow wire shows at one moment": func(s *story) {
			s.publish(1, "a")
			s.publish(2, "a")
			s.deliver("r", 1)
			s.deliver("r", 2)
			s.mapped("r", 1)
			s.mapped("r", 2)
			s.tick()
			s.still = true
			for range 5 {
				s.signal("r", beat, 2)
				s.signal("r", beat, 1, "")
			}
			s.still = false
			s.attempt("r", "a")
			s.signal("r", ack, 1)
			s.signal("r", ack, 2)
		},
		"nothing owed": func(s *story) {
			s.publish(1)
			s.deliver("r", 1)
			s.signal("r", ack, 1)
		},
		"several requests": func(s *story) {
			s.publish(1, "a", "b", "a")
			s.reconcile("r", 1, "a", "b")
		},
		"two messages by one attempt": func(s *story) {
			s.publish(1, "a")
			s.publish(2, "a")
			s.deliver("r", 1)
			s.deliver("r", 2)
			s.mapped("r", 1)
			s.mapped("r", 2)
			s.attempt("r", "a")
			s.signal("r", ack, 2)
			s.signal("r", ack, 1)
		},
		"an attempt that runs does not count, the next does": func(s *story) {
			s.publish(1, "a")
			end := s.begin("r", "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			end(history.Success)
			s.attempt("r", "a")
			s.signal("r", ack, 1)
		},
		"failures first": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			for _, o := range []history.Outcome{history.Failed, history.Panicked, history.Unfinished, history.Success} {
				s.begin("r", "a")(o)
			}
			s.signal("r", ack, 1)
		},
		"the mapper fails first": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapFailed("r", 1)
			s.signal("r", nak, 1)
			s.reconcile("q", 1, "a")
		},
		"a verdict that was not confirmed is repeated": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.attempt("r", "a")
			reply := s.signal("r", ack, 1)
			s.wait(time.Second)
			s.signal("r", ack, 1, reply)
			s.refuse("r", reply)
			s.wait(time.Second)
			s.signalOn(2, "r", ack, 1, reply)
			s.answer("r", reply)
			s.signalOn(2, "r", ack, 1, reply) // was under way
		},
		"a confirmation was lost with the connection": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.attempt("r", "a")
			reply := s.signal("r", ack, 1)
			s.answer("r", reply)
			s.wait(time.Second)
			s.signalOn(2, "r", ack, 1, reply)
		},
		"a copy of what is decided gets the verdict again": func(s *story) {
			s.publish(1, "a")
			s.reconcile("r", 1, "a")
			s.wait(time.Second)
			s.deliver("r", 1)
			s.answer("r", s.signal("r", ack, 1))
		},
		"a copy of what is held is absorbed": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.deliver("r", 1)
			s.attempt("r", "a")
			s.signal("r", ack, 1)
		},
		"another replica acks too": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.reconcile("q", 1, "a")
			s.attempt("r", "a")
			s.signal("r", ack, 1)
		},
		"a replica is killed": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.begin("r", "a")
			s.reconcile("q", 1, "a")
		},
		"a heartbeat in each round": func(s *story) {
			s.publish(1, "a")
			s.publish(2, "a")
			s.deliver("r", 1)
			s.deliver("r", 2)
			s.mapped("r", 1)
			s.mapped("r", 2)
			s.answer("r", s.signal("r", beat, 2)) // begun before the other came
			for range 4 {
				s.signal("r", beat, 1, "")
				s.answer("r", s.signal("r", beat, 2))
				s.signal("r", beat, 2, "")
				s.answer("r", s.signal("r", beat, 1))
			}
			s.attempt("r", "a")
			s.answer("r", s.signal("r", beat, 2)) // decided meanwhile
			s.signal("r", ack, 1)
			s.signal("r", ack, 2)
		},
		"decided, and its verdict held back": func(s *story) {
			s.publish(1, "a")
			s.publish(2, "b")
			s.deliver("r", 1)
			s.deliver("r", 2)
			s.mapped("r", 1)
			s.mapped("r", 2)
			s.attempt("r", "a")
			for range 5 {
				s.answer("r", s.signal("r", beat, 2))
			}
			s.signal("r", ack, 1)
			s.attempt("r", "b")
			s.signal("r", ack, 2)
		},
		"given back within the lease": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			for range 20 {
				s.wait(ackWait / 2)
				s.answer("r", s.signal("r", beat, 1))
			}
			s.wait(ackWait - slack)
			s.signal("r", nak, 1)
			s.reconcile("q", 1, "a")
		},
		"given back within the lease, by the heartbeat of another message": func(s *story) {
			s.publish(1, "a")
			s.publish(2, "a")
			s.deliver("r", 1)
			s.deliver("r", 2)
			for range 5 {
				s.wait(ackWait / 2)
				s.signal("r", beat, 1, "")
				s.answer("r", s.signal("r", beat, 2))
			}
			s.signal("r", nak, 1)
			s.signal("r", nak, 2)
			s.reconcile("q", 1, "a")
			s.reconcile("q", 2, "a")
		},
		"given back after a lapse, by a copy that came since": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.wait(time.Second)
			s.deliver("r", 1)
			s.signal("r", nak, 1)
			s.reconcile("q", 1, "a")
		},
		"mapped again after it was given back": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.signal("r", nak, 1)
			s.reconcile("r", 1, "a")
		},
		"handed out and mapped again long after the verdict": func(s *story) {
			s.publish(1, "a")
			s.reconcile("r", 1, "a")
			s.publish(2000)
			s.deliver("r", 2000)
			s.signal("r", ack, 2000)
			s.wait(time.Second)
			s.reconcile("r", 1, "a")
		},
		"mapped again after it was forgotten": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.rec.Change(func(h *history.History) { h.Forgets = append(h.Forgets, history.Forget{Replica: "r", At: s.tick()}) })
			s.reconcile("r", 1, "a")
		},
		"superseded": func(s *story) {
			s.rec.Change(func(h *history.History) { h.Supersede = true })
			s.publish(1, "a")
			s.publish(2, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.deliver("r", 2)
			s.mapped("r", 2)
			s.signal("r", ack, 1)
			s.attempt("r", "a")
			s.signal("r", ack, 2)
		},
		"paused past the lease, and given back before": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			begin := s.tick()
			s.wait(time.Second)
			s.rec.Change(func(h *history.History) {
				h.Pauses = append(h.Pauses, history.Pause{Replica: "r", Begin: begin, End: s.tick()})
			})
			s.signal("r", nak, 1) // was on its way
			s.reconcile("q", 1, "a")
		},
		"garbage": func(s *story) {
			s.rec.Published(history.Publish{Call: 1, Change: 1, Garbage: true, Begin: s.tick(), End: s.tick(), Confirmed: true, Seq: 1})
			s.store(1)
			s.deliver("r", 1)
			s.signal("r", nak, 1)
			s.deliver("r", 1)
			s.answer("r", s.letter("r", 1, ""))
			s.signal("r", term, 1)
		},
		"settled by a stale verdict": func(s *story) {
			s.publishWiped(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.attempt("r", "a")
			s.signal("r", ack, 1) // held back
			s.rec.Change(func(h *history.History) {
				h.Wipes = append(h.Wipes, history.Wipe{What: "stream deleted", Deleted: true, Begin: s.tick(), End: s.tick()})
			})
			s.rec.Published(history.Publish{
				Call: 7, Change: 7, Key: "k", Owes: []string{"a"}, Begin: s.tick(), End: s.tick(), Confirmed: true, Seq: 1,
			})
			again := history.ID{Seq: 1, Stored: 7000}
			s.final.Stored = append(s.final.Stored, history.Stored{Message: again, Call: 7})
			s.rec.Delivered(history.Delivery{Replica: "q", Message: again, Count: 1, ConsumerSeq: 1, Call: 7, At: s.tick()})
			s.rec.Change(func(h *history.History) {
				h.Lates = append(h.Lates, history.Late{Replica: "r", Message: id(1), Passed: s.tick()})
			})
		},
		"waited for": func(s *story) {
			s.publish(1, "a")
			s.reconcile("r", 1, "a")
			s.waitedFor(1)
		},
		"a dead letter": func(s *story) {
			s.publish(1, "a", "b")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.begin("r", "a")(history.Terminal)
			s.answer("r", s.letter("r", 1, "a"))
			s.attempt("r", "b")
			s.signal("r", term, 1)
		},
		"a dead letter of the whole message": func(s *story) {
			s.publish(1, "a", "b")
			s.deliver("r", 1)
			s.refuse("r", s.letter("r", 1, ""))
			s.answer("r", s.letter("r", 1, ""))
			s.signal("r", term, 1)
		},
		"purged": func(s *story) {
			s.publishWiped(1, "a")
			s.wipe("stream purged")
			s.publish(2, "a")
			s.reconcile("r", 2, "a")
		},
		"purged after it was settled": func(s *story) {
			s.publishWiped(1, "a")
			s.publishWiped(2, "a")
			s.reconcile("r", 1, "a")
			s.floor(1)
			s.wipe("stream purged")
		},
		"the stream is made anew, and its sequences begin again": func(s *story) {
			s.publishWiped(1, "a")
			s.reconcile("r", 1, "a")
			s.wipe("stream deleted")
			s.rec.Published(history.Publish{
				Call: 7, Change: 7, Key: "k", Owes: []string{"a"}, Begin: s.tick(), End: s.tick(), Confirmed: true, Seq: 1,
			})
			again := history.ID{Seq: 1, Stored: 7000}
			s.final.Stored = append(s.final.Stored, history.Stored{Message: again, Call: 7})
			s.rec.Delivered(history.Delivery{Replica: "r", Message: again, Count: 1, ConsumerSeq: 1, Call: 7, At: s.tick()})
			s.mapped("r", 7)
			s.attempt("r", "a")
			s.rec.Signalled(history.Signal{Replica: "r", Link: 1, Kind: ack, Message: again, Count: 1, ConsumerSeq: 1, Reply: "x", At: s.tick()})
		},
		"a verdict sent together with another, repeated by itself": func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.attempt("r", "a")
			s.signal("r", ack, 1, "")
			s.answer("r", s.signal("r", ack, 1))
		},
		"a duplicate": func(s *story) {
			s.publish(1, "a")
			s.rec.Published(history.Publish{
				Call: 2, Change: 1, Key: "k", Owes: []string{"a"}, Begin: s.tick(), End: s.tick(), Confirmed: true, Seq: 1, Duplicate: true,
			})
			s.reconcile("r", 1, "a")
		},
		"no answer, and not stored": func(s *story) {
			s.rec.Published(history.Publish{Call: 1, Change: 1, Key: "k", Owes: []string{"a"}, Begin: s.tick(), End: s.tick(), Err: "timeout"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory()
			tell(s)
			s.expect(t)
		})
	}
}

// TestPlantedViolations tells what must not happen: each is found, as the violation of its rule and of no
// other.
func TestPlantedViolations(t *testing.T) {
	for _, c := range []struct {
		name string
		rule history.Rule
		tell func(s *story)
	}{
		{"acked before it was mapped", history.S1, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.signal("r", ack, 1)
			s.mapped("r", 1)
			s.attempt("r", "a")
		}},
		{"acked before the attempt", history.S1, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.signal("r", ack, 1)
			s.attempt("r", "a")
		}},
		{"acked while the attempt runs", history.S1, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			end := s.begin("r", "a")
			s.signal("r", ack, 1)
			end(history.Success)
		}},
		{"acked for an attempt that was running when it arrived", history.S1, func(s *story) {
			s.publish(1, "a")
			end := s.begin("r", "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			end(history.Success)
			s.signal("r", ack, 1)
		}},
		{"acked for one of two requests", history.S1, func(s *story) {
			s.publish(1, "a", "b")
			s.reconcile("r", 1, "a")
			s.attempt("q", "b") // another's does not count
		}},
		{"acked for a failed attempt", history.S1, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.begin("r", "a")(history.Failed)
			s.signal("r", ack, 1)
			s.attempt("r", "a")
		}},
		{"acked for an unfinished attempt", history.S1, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.begin("r", "a")(history.Unfinished)
			s.signal("r", ack, 1)
			s.attempt("r", "a")
		}},
		{"acked though the mapper failed", history.S1, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapFailed("r", 1)
			s.attempt("r", "a")
			s.signal("r", ack, 1)
		}},
		{"a verdict repeated after it was confirmed", history.S3, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.attempt("r", "a")
			reply := s.signal("r", ack, 1)
			s.answer("r", reply)
			s.wait(time.Second)
			s.signal("r", ack, 1, reply)
		}},
		{"judged twice for one copy", history.S3, func(s *story) {
			s.publish(1, "a")
			s.reconcile("r", 1, "a")
			s.signal("r", ack, 1)
		}},
		{"judged twice without asking for an answer", history.S3, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.attempt("r", "a")
			s.signal("r", ack, 1, "")
			s.signal("r", ack, 1, "")
		}},
		{"judged twice after a verdict that asked for no answer", history.S3, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.attempt("r", "a")
			s.signal("r", ack, 1, "")
			s.signal("r", ack, 1)
			s.signal("r", ack, 1)
		}},
		{"two verdicts that differ", history.S3, func(s *story) {
			s.publish(1, "a")
			s.reconcile("r", 1, "a")
			s.deliver("r", 1)
			s.answer("r", s.letter("r", 1, "a"))
			s.signal("r", term, 1)
		}},
		{"mapped twice while it was held", history.S4, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.wait(time.Second)
			s.reconcile("r", 1, "a")
		}},
		{"worked on again after the verdict", history.S4, func(s *story) {
			s.publish(1, "a")
			s.reconcile("r", 1, "a")
			s.wait(time.Second)
			s.reconcile("r", 1, "a")
		}},
		{"terminated without a dead letter", history.S8, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.begin("r", "a")(history.Terminal)
			s.signal("r", term, 1)
			s.attempt("q", "a")
		}},
		{"terminated before the dead letter was confirmed", history.S8, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.begin("r", "a")(history.Terminal)
			reply := s.letter("r", 1, "a")
			s.signal("r", term, 1)
			s.answer("r", reply)
		}},
		{"terminated though the dead letter was refused", history.S8, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.begin("r", "a")(history.Terminal)
			s.refuse("r", s.letter("r", 1, "a"))
			s.signal("r", term, 1)
			s.attempt("q", "a")
		}},
		{"terminated while another request is owed", history.S8, func(s *story) {
			s.publish(1, "a", "b")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.begin("r", "a")(history.Terminal)
			s.answer("r", s.letter("r", 1, "a"))
			s.signal("r", term, 1)
			s.attempt("r", "b")
		}},
		{"left out of the heartbeats", history.L1, func(s *story) {
			s.publish(1, "a")
			s.publish(2, "a")
			s.deliver("r", 1)
			s.deliver("r", 2)
			s.mapped("r", 1)
			s.mapped("r", 2)
			for range 4 {
				s.answer("r", s.signal("r", beat, 2))
			}
			s.attempt("r", "a")
			s.signal("r", ack, 1)
			s.signal("r", ack, 2)
		}},
		{"a heartbeat after the verdict", history.L1, func(s *story) {
			s.publish(1, "a")
			s.reconcile("r", 1, "a")
			s.signal("r", beat, 1)
		}},
		{"given back after the verdict", history.L5, func(s *story) {
			s.publish(1, "a")
			s.reconcile("r", 1, "a")
			s.signal("r", nak, 1)
		}},
		{"given back after the verdict, on the copy that came since", history.L5, func(s *story) {
			s.publish(1, "a")
			s.reconcile("r", 1, "a")
			s.deliver("r", 1)
			s.signal("r", nak, 1)
		}},
		{"given back on a connection made after that of the verdict", history.L5, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.attempt("r", "a")
			s.signalOn(2, "r", nak, 1) // recorded first, sent last
			s.signalOn(1, "r", ack, 1)
		}},
		{"given back twice for one copy", history.L5, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapFailed("r", 1)
			s.signal("r", nak, 1)
			s.signal("r", nak, 1)
			s.reconcile("q", 1, "a")
		}},
		{"given back without a heartbeat in time", history.L5, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.wait(ackWait + 2*slack)
			s.signal("r", nak, 1)
			s.reconcile("q", 1, "a")
		}},
		{"given back though no heartbeat was confirmed in time", history.L5, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			for range 10 {
				s.wait(ackWait / 3)
				s.signal("r", beat, 1)
			}
			s.signal("r", nak, 1)
			s.reconcile("q", 1, "a")
		}},
		{"given back though the heartbeats before the last were confirmed too late", history.L5, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			first := s.signal("r", beat, 1)
			s.wait(ackWait + 2*slack)
			s.answer("r", first)
			s.answer("r", s.signal("r", beat, 1))
			s.signal("r", nak, 1)
			s.reconcile("q", 1, "a")
		}},
		{"given back though only others' heartbeats were confirmed", history.L5, func(s *story) {
			s.publish(1, "a")
			s.publish(2, "a")
			s.deliver("r", 1)
			s.deliver("r", 2)
			for range 10 {
				s.wait(ackWait / 3)
				s.answer("r", s.signal("r", beat, 2))
			}
			s.signal("r", nak, 1)
			s.signal("r", nak, 2)
			s.reconcile("q", 1, "a")
			s.reconcile("q", 2, "a")
		}},
		{"vanished", history.T2, func(s *story) {
			s.wipe("stream purged")
			s.publishWiped(1, "a")
		}},
		{"no verdict, and nothing pending", history.T2, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.attempt("r", "a")
		}},
		{"never delivered, and nothing pending", history.T2, func(s *story) {
			s.publish(1, "a")
		}},
		{"below the floor without a verdict, and then deleted", history.T2, func(s *story) {
			s.publishWiped(1, "a")
			s.publishWiped(2, "a")
			s.reconcile("r", 2, "a")
			s.floor(2)
			s.wipe("stream deleted")
		}},
		{"only an attempt that saw less", history.T2, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.rec.Began("r", 99, "a", s.tick())
			s.rec.Ended("r", 99, history.Success, 0, s.tick())
			s.signal("r", ack, 1)
		}},
		{"a duplicate that was stored again", history.T2, func(s *story) {
			s.publish(1, "a")
			s.reconcile("r", 1, "a")
			s.rec.Published(history.Publish{
				Call: 2, Change: 1, Key: "k", Owes: []string{"a"}, Begin: s.tick(), End: s.tick(), Confirmed: true, Seq: 2,
			})
			s.store(2)
			s.reconcile("r", 2, "a")
		}},
		{"superseded by a message that came before", history.S1, func(s *story) {
			s.rec.Change(func(h *history.History) { h.Supersede = true })
			s.publish(1, "a")
			s.publish(2, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.deliver("r", 2)
			s.mapped("r", 2)
			s.signal("r", ack, 2)
			s.attempt("r", "a")
			s.signal("r", ack, 1)
		}},
		{"garbage acked", history.S7, func(s *story) {
			s.rec.Published(history.Publish{Call: 1, Change: 1, Garbage: true, Begin: s.tick(), End: s.tick(), Confirmed: true, Seq: 1})
			s.store(1)
			s.deliver("r", 1)
			s.signal("r", ack, 1)
		}},
		{"paused past the lease, and then given back", history.L5, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			begin := s.tick()
			s.wait(time.Second)
			s.rec.Change(func(h *history.History) {
				h.Pauses = append(h.Pauses, history.Pause{Replica: "r", Begin: begin, End: s.tick()})
			})
			s.wait(ackWait + 10*slack)
			s.signal("r", nak, 1)
			s.reconcile("q", 1, "a")
		}},
		{"waited for in vain", history.S10, func(s *story) {
			s.publish(1, "a")
			s.waitedFor(1)
			s.reconcile("r", 1, "a")
		}},
		{"settled on a stream that is gone, after one of the next", history.L4, func(s *story) {
			s.publishWiped(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			s.attempt("r", "a")
			s.wipe("stream deleted")
			again := history.ID{Seq: 1, Stored: 7000}
			s.rec.Published(history.Publish{
				Call: 7, Change: 7, Key: "k", Owes: []string{"a"}, Begin: s.tick(), End: s.tick(), Confirmed: true, Seq: 1,
			})
			s.final.Stored = append(s.final.Stored, history.Stored{Message: again, Call: 7})
			s.rec.Delivered(history.Delivery{Replica: "r", Message: again, Count: 1, ConsumerSeq: 1, Call: 7, At: s.tick()})
			s.mapped("r", 7)
			s.attempt("r", "a")
			s.rec.Signalled(history.Signal{Replica: "r", Link: 1, Kind: ack, Message: again, Count: 1, ConsumerSeq: 1, Reply: "x", At: s.tick()})
			s.wait(time.Second)
			s.signal("r", ack, 1)
		}},
		{"two attempts on one request at once", history.Engine, func(s *story) {
			s.publish(1, "a")
			s.deliver("r", 1)
			s.mapped("r", 1)
			end := s.begin("r", "a")
			s.attempt("r", "a")
			end(history.Success)
			s.signal("r", ack, 1)
		}},
		{"something unacknowledged at the end", history.Idle, func(s *story) {
			s.publish(1, "a")
			s.reconcile("r", 1, "a")
			s.final.NumAckPending = 1
		}},
		{"something pending at the end", history.Idle, func(s *story) {
			s.publish(1, "a")
			s.final.NumPending, s.final.TimedOut = 1, true
		}},
		{"a message nobody has published", history.Harness, func(s *story) {
			s.deliver("r", 1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStory()
			c.tell(s)
			s.expect(t, c.rule)
		})
	}
}

func TestFigures(t *testing.T) {
	s := newStory()
	s.publish(1, "a")
	s.publish(2, "a")
	s.publishWiped(3, "a")
	s.wipe("stream purged")
	s.deliver("r", 1)
	s.mapFailed("r", 1)
	s.signal("r", nak, 1)
	s.deliver("r", 1)
	s.mapped("r", 1)
	s.deliver("r", 1) // absorbed
	s.attempt("r", "a")
	s.signal("r", ack, 1)
	s.deliver("r", 2)
	s.mapped("r", 2)
	s.begin("r", "a")(history.Terminal)
	s.answer("r", s.letter("r", 2, "a"))
	s.signal("r", term, 2)
	s.begin("r", "b")
	r := s.check()
	f := r.Figures
	f.Outcomes, f.Slowest = nil, 0
	want := history.Figures{
		Events: 3, Stored: 2, Excluded: 1, Deliveries: 4, Redelivered: 2, Absorbed: 1, Mappings: 3, MapFailures: 1, Attempts: 3,
		Acks: 1, Naks: 1, Terms: 1, Letters: 1, Dead: 1,
	}
	if len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
	if got, want := f, want; !equal(got, want) {
		t.Errorf("figures\n%+v, want\n%+v", got, want)
	}
	f.Add(want)
	if f.Events != 6 || f.Deliveries != 8 {
		t.Errorf("added up: %+v", f)
	}
}

func equal(a, b history.Figures) bool {
	var sa, sb strings.Builder
	a.Print(&sa)
	b.Print(&sb)
	return sa.String() == sb.String() && a.Stored == b.Stored
}

func TestTellShowsWhatBecameOfTheMessage(t *testing.T) {
	s := newStory()
	s.publish(1, "a")
	s.deliver("r", 1)
	s.mapped("r", 1)
	reply := s.signal("r", ack, 1)
	s.answer("r", reply)
	s.attempt("r", "a")
	var b strings.Builder
	s.check().Tell(&b, 1)
	for _, want := range []string{"S1: message 1", "call 1: change 1", "r ◀ delivery 1", "r   mapped", "r ▶ ack", "r ◀ answer to ack", `attempt on "a"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("nothing of %q in\n%s", want, b.String())
		}
	}
}
