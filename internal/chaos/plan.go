//go:build unix

package chaos

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// slots is how many replicas share the durable at most (one more while one is being replaced).
const slots = 3

// timing is how long a kind of fault lasts, and how often it is dealt.
type timing struct {
	kind     FaultKind
	min, max time.Duration
	times    int  // in the deck
	server   bool // one server is down or cut off meanwhile: no two of those at once
}

// deck is what can go wrong, from one time round to the next.
func (c *Config) deck() []timing {
	const ms = time.Millisecond
	past := c.AckWait + c.slack() // after which a lapsed lease shows
	deck := []timing{
		{kind: kill, max: 2000 * ms, times: 3},
		{kind: term, max: 2000 * ms, times: 2},
		{kind: away, min: 3000 * ms, max: 8000 * ms, times: 1},
		{kind: roll, min: 100 * ms, max: 1000 * ms, times: 1},
		{kind: cutReplica, times: 2},
		{kind: outage, min: 100 * ms, max: 3000 * ms, times: 1},
		{kind: stallUp, min: c.AckWait / 2, max: 3 * c.AckWait, times: 2},
		{kind: stallDown, min: c.AckWait / 2, max: 3 * c.AckWait, times: 2},
		{kind: hungUp, min: c.AckWait * 3 / 2, max: c.AckWait * 5 / 2, times: 2},
		{kind: lag, min: 1000 * ms, max: 4000 * ms, times: 2},
		{kind: pause, min: c.AckWait / 2, max: 3 * c.AckWait, times: 2},
		{kind: lapse, min: past + 500*ms, max: past + 1000*ms, times: 1},
		{kind: lapseKilled, min: c.AckWait, max: 2 * c.AckWait, times: 1},
		{kind: cutLoad, times: 1},
		{kind: deleteConsumer, times: 1},
		{kind: deleteThenKill, min: 300 * ms, max: 1000 * ms, times: 1},
		{kind: killThenDelete, min: 300 * ms, max: 1000 * ms, times: 1},
		{kind: purge, times: 1},
		{kind: remakeStream, times: 1},
		{kind: deleteStream, times: 1},
	}
	for kind, w := range raging() {
		most := 2000 * ms
		if w == mapFail || w == mapBlowUp {
			most = 700 * ms // each failure doubles the delay of the next
		}
		deck = append(deck, timing{kind: kind, min: most / 3, max: most, times: 1})
	}
	if c.Kind == Single {
		deck = append(deck,
			timing{kind: restart, min: 20 * ms, max: 1500 * ms, times: 1, server: true},
			timing{kind: killServer, min: 20 * ms, max: 1500 * ms, times: 1, server: true},
		)
	} else {
		deck = append(deck,
			timing{kind: killStreamLeader, min: 100 * ms, max: 3000 * ms, times: 1, server: true},
			timing{kind: killConsumerLeader, min: 100 * ms, max: 3000 * ms, times: 1, server: true},
			timing{kind: killMetaLeader, min: 100 * ms, max: 3000 * ms, times: 1, server: true},
			timing{kind: crash, min: 1000 * ms, max: 5000 * ms, times: 1, server: true},
			timing{kind: partition, min: 1000 * ms, max: 8000 * ms, times: 1, server: true},
			timing{kind: stepStream, times: 1},
			timing{kind: stepConsumer, times: 1},
		)
	}
	slices.SortFunc(deck, func(a, b timing) int { return cmp.Compare(a.kind, b.kind) }) // a map came in
	var all []timing
	for _, t := range deck {
		for range t.times {
			all = append(all, t)
		}
	}
	return all
}

// recovery is how long servers are left alone after one was back: an election takes seconds, and a cluster
// without a leader has nothing to lose.
func (c *Config) recovery() time.Duration {
	if c.Kind == Cluster {
		return 3 * time.Second
	}
	return 500 * time.Millisecond
}

// drill is what every run begins with: faults that must not get in each other's way to show what they are for.
// It returns when they are over.
func (c *Config) drill() (faults []Fault, over time.Duration) {
	const ms = time.Millisecond
	past := c.AckWait + c.slack() + 500*ms
	faults = []Fault{
		// Copies of what is held come back; one replica finds out that its leases have lapsed and stops.
		{Kind: hungUp, At: 200 * ms, For: c.AckWait * 7 / 4, Slot: 0},
		{Kind: lapse, At: 200 * ms, For: past, Slot: 1},
	}
	at := 200*ms + max(past, c.AckWait*7/4) + 300*ms
	add := func(kind FaultKind, takes time.Duration, slot int, wait time.Duration) {
		faults = append(faults, Fault{Kind: kind, At: at, For: takes, Slot: slot})
		at += wait
	}
	add(weatherOf+"terminal errors", 800*ms, 0, 100*ms)
	add(weatherOf+"failing mapper", 400*ms, 0, 700*ms)
	add(killThenDelete, 600*ms, 2, 1200*ms)
	add(deleteThenKill, 600*ms, 0, 1200*ms)
	return faults, at
}

// Plan is what goes wrong in a run: the seed and the settings decide it. After the drill, whatever can happen
// happens once, in random order, before any of it happens again.
func (c *Config) Plan() ([]Fault, error) {
	settled := *c
	if err := settled.complete(); err != nil {
		return nil, err
	}
	return settled.plan(), nil
}

func (c *Config) plan() []Fault {
	random := rand.New(rand.NewPCG(c.Seed, 0x6368616f73))
	var (
		deck []timing
		busy time.Duration // until when a server is down
	)
	plan, at := c.drill()
	plan = slices.DeleteFunc(plan, func(f Fault) bool { return f.At >= c.Duration })
	for {
		at += time.Duration(float64(c.Every) * (0.2 + 0.8*random.ExpFloat64()))
		if at >= c.Duration {
			break
		}
		if len(deck) == 0 {
			deck = c.deck()
			random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		i := 0
		if at < busy {
			// The next that needs no server, if there is one.
			i = slices.IndexFunc(deck, func(t timing) bool { return !t.server })
			if i < 0 {
				i, at = 0, busy
			}
		}
		if at >= c.Duration {
			break
		}
		t := deck[i]
		deck = slices.Delete(deck, i, i+1)
		f := Fault{Kind: t.kind, At: at, For: t.min, Slot: random.IntN(slots)}
		if t.max > t.min {
			f.For += time.Duration(random.Int64N(int64(t.max - t.min)))
		}
		if t.server {
			busy = at + f.For + c.recovery()
		}
		plan = append(plan, f)
	}
	return plan
}
