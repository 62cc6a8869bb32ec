package bench

import (
	"math"
	"sync/atomic"
	"time"
)

// Probe notes what becomes of each event. All times are nanoseconds since it began; 0 means never.
//
// An event is covered by the first attempt on its key that begins after the event was received. What is
// received waits in a list for each key, newest first, which an attempt takes as a whole: no lock and no
// allocation, so that the measuring costs little and every contender the same.
type Probe struct {
	began time.Time
	spec  *Spec

	intended []int64         // by event: when it was to be published; written before it is
	sent     []int64         // by event: when it was
	seqs     []atomic.Uint64 // by event: its sequence in the stream
	covered  []atomic.Int64  // by event: when the attempt began that covers it
	bySeq    []atomic.Int64  // by sequence: the same, for who has not decoded the event
	settled  []atomic.Int64  // by sequence: when the server received its first ack

	listed []atomic.Bool  // by event: it was received
	next   []int32        // by event: the next in the list of its key, + 1
	heads  []atomic.Int32 // by key: the first in the list, + 1

	first    atomic.Int64 // when the first event was received
	last     atomic.Int64 // when the last event was covered
	received atomic.Int64 // hand-outs
	done     atomic.Int64 // events that are covered
	attempts atomic.Int64
	acks     atomic.Int64 // that the witness has seen, repeated ones included
	strange  atomic.Int64 // events or keys that are none of the run's
}

func newProbe(s *Spec) *Probe {
	n := s.Events
	return &Probe{
		began: time.Now(), spec: s,
		intended: make([]int64, n), sent: make([]int64, n), seqs: make([]atomic.Uint64, n), covered: make([]atomic.Int64, n),
		bySeq: make([]atomic.Int64, n+1), settled: make([]atomic.Int64, n+1),
		listed: make([]atomic.Bool, n), next: make([]int32, n), heads: make([]atomic.Int32, s.keys()),
	}
}

// now is the time since the Probe began, and never 0.
func (p *Probe) now() int64 { return max(1, int64(time.Since(p.began))) }

// arrived counts a hand-out.
func (p *Probe) arrived() {
	if p.received.Add(1) == 1 {
		p.first.Store(p.now())
	}
}

// Received notes that an event was received which attempts on its key are to cover.
func (p *Probe) Received(e *Event) {
	p.arrived()
	n := Number(e)
	if n < 0 || n >= len(p.listed) {
		p.strange.Add(1)
		return
	}
	if p.listed[n].Swap(true) {
		return // a redelivery
	}
	head := &p.heads[p.spec.keyOf(n)]
	for {
		old := head.Load()
		p.next[n] = old
		if head.CompareAndSwap(old, int32(n+1)) {
			return
		}
	}
}

// Attempt notes that an attempt on key begins.
func (p *Probe) Attempt(key string) {
	p.attempts.Add(1)
	k, err := keyIndex(key)
	if err != nil || k < 0 || k >= len(p.heads) {
		p.strange.Add(1)
		return
	}
	n := p.heads[k].Swap(0)
	if n == 0 {
		return
	}
	now := p.now()
	for ; n != 0; n = p.next[n-1] {
		p.cover(&p.covered[n-1], now)
	}
}

// Direct notes that an attempt begins which covers just this event: no queue in between.
func (p *Probe) Direct(e *Event) {
	p.arrived()
	p.attempts.Add(1)
	n := Number(e)
	if n < 0 || n >= len(p.covered) {
		p.strange.Add(1)
		return
	}
	p.cover(&p.covered[n], p.now())
}

// DirectSequence is Direct for who knows only the message's sequence in the stream.
func (p *Probe) DirectSequence(seq uint64) {
	p.arrived()
	p.attempts.Add(1)
	if seq >= uint64(len(p.bySeq)) {
		p.strange.Add(1)
		return
	}
	p.cover(&p.bySeq[seq], p.now())
}

func (p *Probe) cover(at *atomic.Int64, now int64) {
	if at.CompareAndSwap(0, now) {
		if p.done.Add(1) == int64(p.spec.Events) {
			p.last.Store(now)
		}
	}
}

// settle notes that the server has received an ack.
func (p *Probe) settle(seq uint64) {
	p.acks.Add(1)
	if seq < uint64(len(p.settled)) {
		p.settled[seq].CompareAndSwap(0, p.now())
	}
}

// coveredAt is when event n was covered.
func (p *Probe) coveredAt(n int) int64 {
	if at := p.covered[n].Load(); at != 0 {
		return at
	}
	if seq := p.seqs[n].Load(); seq != 0 && seq < uint64(len(p.bySeq)) {
		return p.bySeq[seq].Load()
	}
	return 0
}

// lastCovered is when the last event of those that were covered was.
func (p *Probe) lastCovered() int64 {
	if at := p.last.Load(); at != 0 {
		return at
	}
	last := int64(0)
	for n := range p.covered {
		last = max(last, p.coveredAt(n))
	}
	return last
}

// timeline counts the events covered in each of n equal parts of the time from begin to end, a second's
// worth.
func (p *Probe) timeline(begin, end int64, n int) []float64 {
	parts := make([]float64, n)
	if end <= begin {
		return parts
	}
	width := float64(end-begin) / float64(n)
	for i := range p.covered {
		if at := p.coveredAt(i); at >= begin && at != 0 {
			parts[min(n-1, int(float64(at-begin)/width))]++
		}
	}
	for i := range parts {
		parts[i] = math.Round(parts[i] / (width / 1e9))
	}
	return parts
}
