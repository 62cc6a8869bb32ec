package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/history"
)

const (
	ackWait = 100 * time.Millisecond
	slack   = 10 * time.Millisecond
)

// story tells a history, a millisecond a line. Message n is stored by call n, as change n, unless said
// otherwise.
type story struct {
	rec      *history.Recorder
	now      time.Duration
	still    bool // time stands: all that happens is seen at one moment
	replies  int
	attempts uint64
	final    history.Final
	copies   map[string]uint64
}

func newStory() *story {
	return &story{rec: history.NewRecorder(ackWait, slack), copies: map[string]uint64{}}
}

func (s *story) tick() time.Duration {
	if !s.still {
		s.now += time.Millisecond
	}
	return s.now
}

func (s *story) wait(d time.Duration) { s.now += d }

func id(n int) history.ID { return history.ID{Seq: uint64(n), Stored: int64(n) * 1000} }

// publish publishes message n, which owes reqs, and stores it for good.
func (s *story) publish(n int, reqs ...string) {
	s.publishWiped(n, reqs...)
	s.store(n)
}

// publishWiped publishes message n, which is not in the stream at the end.
func (s *story) publishWiped(n int, reqs ...string) {
	s.rec.Published(history.Publish{
		Call: uint64(n), Change: uint64(n), Key: "k", Owes: reqs, Begin: s.tick(), End: s.tick(), Confirmed: true, Seq: uint64(n),
	})
}

func (s *story) store(n int) {
	s.final.Stored = append(s.final.Stored, history.Stored{Message: id(n), Call: uint64(n)})
}

func (s *story) deliver(replica string, n int) {
	key := fmt.Sprint(n)
	s.copies[key]++
	s.rec.Delivered(history.Delivery{
		Replica: replica, Message: id(n), Count: s.copies[key], ConsumerSeq: uint64(n), Call: uint64(n), At: s.tick(),
	})
}

func (s *story) mapped(replica string, n int) {
	s.rec.Mapped(history.Mapping{Replica: replica, Call: uint64(n), Begin: s.tick(), End: s.tick()})
}

func (s *story) mapFailed(replica string, n int) {
	s.rec.Mapped(history.Mapping{Replica: replica, Call: uint64(n), Begin: s.tick(), End: s.tick(), Failed: true})
}

// begin begins an attempt and returns what ends it.
func (s *story) begin(replica, req string) (end func(o history.Outcome)) {
	s.attempts++
	n := s.attempts
	s.rec.Began(replica, n, req, s.tick())
	return func(o history.Outcome) { s.rec.Ended(replica, n, o, 1<<40, s.tick()) }
}

func (s *story) attempt(replica, req string) { s.begin(replica, req)(history.Success) }

// signal sends something about message n; the reply, if none is given, is a new one.
func (s *story) signal(replica string, kind history.Kind, n int, reply ...string) string {
	return s.signalOn(1, replica, kind, n, reply...)
}

func (s *story) signalOn(link int, replica string, kind history.Kind, n int, reply ...string) string {
	s.replies++
	to := fmt.Sprintf("reply-%d", s.replies)
	if len(reply) > 0 {
		to = reply[0]
	}
	s.rec.Signalled(history.Signal{
		Replica: replica, Link: link, Kind: kind, Message: id(n), Count: s.copies[fmt.Sprint(n)], ConsumerSeq: uint64(n), Reply: to, At: s.tick(),
	})
	return to
}

func (s *story) answer(replica, reply string) {
	s.rec.Answered(history.Answer{Replica: replica, Link: 1, Reply: reply, At: s.tick()})
}

func (s *story) refuse(replica, reply string) {
	s.rec.Answered(history.Answer{Replica: replica, Reply: reply, Refused: true, At: s.tick()})
}

func (s *story) letter(replica string, n int, req string) string {
	s.replies++
	to := fmt.Sprintf("reply-%d", s.replies)
	s.rec.Buried(history.Letter{Replica: replica, Message: id(n), Request: req, Reply: to, At: s.tick()})
	return to
}

func (s *story) waitedFor(n int) {
	s.rec.Change(func(h *history.History) {
		h.Waits = append(h.Waits, history.Wait{Call: uint64(n), Begin: s.tick(), End: s.tick(), Done: true})
	})
}

func (s *story) wipe(what string) {
	s.rec.Wiped(history.Wipe{What: what, Begin: s.tick(), End: s.tick()})
}

func (s *story) floor(seq uint64) {
	s.rec.Change(func(h *history.History) { h.Floors = append(h.Floors, history.Floor{At: s.tick(), Seq: seq}) })
}

// reconcile does everything for message n that is right.
func (s *story) reconcile(replica string, n int, reqs ...string) {
	s.deliver(replica, n)
	s.mapped(replica, n)
	for _, req := range reqs {
		s.attempt(replica, req)
	}
	s.answer(replica, s.signal(replica, history.Ack, n))
}

func (s *story) check() *history.Report {
	s.rec.Change(func(h *history.History) { h.Final = s.final })
	return history.Check(s.rec.History())
}

// expect checks that the story violates these rules, as often as they are listed, and no others.
func (s *story) expect(t *testing.T, want ...history.Rule) {
	t.Helper()
	r := s.check()
	var got []history.Rule
	for _, v := range r.Violations {
		got = append(got, v.Rule)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		var b strings.Builder
		r.Tell(&b, 10)
		t.Errorf("violated %q, want %q\n%s", got, want, b.String())
	}
}
