package history

import (
	"sync"
	"time"
)

// Recorder collects a [History]. Its methods may be called from any goroutine.
type Recorder struct {
	mu      sync.Mutex
	history History
	running map[running]int // attempts that have begun → their index
}

type running struct {
	replica string
	number  uint64
}

// NewRecorder returns a Recorder of a history in which nothing has happened.
func NewRecorder(ackWait, slack time.Duration) *Recorder {
	return &Recorder{history: History{AckWait: ackWait, Slack: slack}, running: map[running]int{}}
}

// Change changes the history under the recorder's lock: whatever has no method of its own.
func (r *Recorder) Change(change func(*History)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.history)
}

// Published adds a publish that has ended.
func (r *Recorder) Published(p Publish) {
	r.Change(func(h *History) { h.Publishes = append(h.Publishes, p) })
}

// Delivered adds a delivery.
func (r *Recorder) Delivered(d Delivery) {
	r.Change(func(h *History) { h.Deliveries = append(h.Deliveries, d) })
}

// Signalled adds a signal. For one connection call it in the order in which signals were sent.
func (r *Recorder) Signalled(s Signal) {
	r.Change(func(h *History) { h.Signals = append(h.Signals, s) })
}

// Answered adds an answer.
func (r *Recorder) Answered(a Answer) {
	r.Change(func(h *History) { h.Answers = append(h.Answers, a) })
}

// Buried adds a dead letter on its way.
func (r *Recorder) Buried(l Letter) {
	r.Change(func(h *History) { h.Letters = append(h.Letters, l) })
}

// Mapped adds a mapping.
func (r *Recorder) Mapped(m Mapping) {
	r.Change(func(h *History) { h.Mappings = append(h.Mappings, m) })
}

// Began adds the replica's attempt of that number, which runs now.
func (r *Recorder) Began(replica string, number uint64, request string, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[running{replica, number}] = len(r.history.Attempts)
	r.history.Attempts = append(r.history.Attempts, Attempt{Replica: replica, Request: request, Begin: at})
}

// Ended completes an attempt.
func (r *Recorder) Ended(replica string, number uint64, o Outcome, seen uint64, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := running{replica, number}
	i, ok := r.running[key]
	if !ok {
		return
	}
	delete(r.running, key)
	a := &r.history.Attempts[i]
	a.Outcome, a.Seen, a.End = o, seen, at
}

// Wiped adds a purge or deletion.
func (r *Recorder) Wiped(w Wipe) {
	r.Change(func(h *History) { h.Wipes = append(h.Wipes, w) })
}

// Progress counts what is recorded so far.
func (r *Recorder) Progress() (publishes, deliveries, attempts, signals int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.history.Publishes), len(r.history.Deliveries), len(r.history.Attempts), len(r.history.Signals)
}

// History is what was recorded. Record nothing any more while it is in use.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.history
}
