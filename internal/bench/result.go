package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run comes to.
type Result struct {
	Contender string `json:"contender"`
	Promise   string `json:"promise"`
	Unsafe    bool   `json:"unsafe"` // it can lose an event that it has received
	Core      bool   `json:"core"`   // nothing is stored
	Spec      Spec   `json:"spec"`
	Round     int    `json:"round"`

	Seconds         float64 `json:"seconds"` // from the first event received to the last settled (Core: covered)
	EventsPerSecond float64 `json:"eventsPerSecond"`

	Covered  int    `json:"covered"` // events that an attempt was due to
	Lost     int    `json:"lost"`    // the others
	HandOuts int64  `json:"handOuts"`
	Attempts int64  `json:"attempts"`
	Settled  uint64 `json:"settled"` // as the server says: nothing up to there is left
	Acks     int64  `json:"acks"`    // that reached the server, repeated ones included; open loop only

	AttemptsPerEvent   float64 `json:"attemptsPerEvent"`
	CPUMicrosPerEvent  float64 `json:"cpuMicrosPerEvent"`  // of this process
	ServerMicros       float64 `json:"serverCPUPerEvent"`  // µs, of the server's, if it has one of its own
	AllocsPerEvent     float64 `json:"allocsPerEvent"`     // of this process
	AllocBytesPerEvent float64 `json:"allocBytesPerEvent"` // of this process
	PeakMemory         uint64  `json:"peakMemory"`         // bytes, of this process, beyond what it held before
	WireIn             float64 `json:"wireInPerEvent"`     // bytes that the contender received
	WireOut            float64 `json:"wireOutPerEvent"`    // bytes that it sent
	MessagesOut        float64 `json:"messagesOutPerEvent"`
	Reads              float64 `json:"readsPerEvent"`  // system calls on the contender's connection
	Writes             float64 `json:"writesPerEvent"` // the same

	// Open loop only, from the moment at which the event was to be published.
	ToReconcile *Latency `json:"eventToReconcile,omitempty"`
	ToSettled   *Latency `json:"eventToSettled,omitempty"`
	Late        *Latency `json:"publishedLate,omitempty"` // how late the load itself was

	// Timeline is the events covered per second in equal parts of the run.
	Timeline []float64 `json:"timeline"`
	FaultAt  float64   `json:"faultAt,omitempty"` // seconds after the first event was received
}

// Latency is a distribution, in microseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	N    int64   `json:"n"`
}

// histogram holds durations of up to ten minutes, to three digits.
type histogram struct{ *hdrhistogram.Histogram }

func newHistogram() histogram {
	return histogram{hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)}
}

// add takes nanoseconds.
func (h histogram) add(ns int64) {
	// It fails for what is longer than the longest, which then counts as that.
	if us := max(0, ns) / int64(time.Microsecond); h.RecordValue(us) != nil {
		_ = h.RecordValue(h.HighestTrackableValue())
	}
}

func (h histogram) latency() *Latency {
	if h.TotalCount() == 0 {
		return nil
	}
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) }
	return &Latency{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()), N: h.TotalCount()}
}

// latencies fills in what an open loop shows.
func (r *Result) latencies(p *Probe) {
	reconcile, settled, late := newHistogram(), newHistogram(), newHistogram()
	for n, at := range p.intended {
		if p.sent[n] == 0 {
			continue
		}
		late.add(p.sent[n] - at)
		if c := p.coveredAt(n); c != 0 {
			reconcile.add(c - at)
		}
		if seq := p.seqs[n].Load(); seq != 0 && seq < uint64(len(p.settled)) {
			if s := p.settled[seq].Load(); s != 0 {
				settled.add(s - at)
			}
		}
	}
	r.ToReconcile, r.ToSettled, r.Late = reconcile.latency(), settled.latency(), late.latency()
}
