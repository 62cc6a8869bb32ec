package consumer

import (
	"testing"

	"pgregory.net/rapid"
)

// The log answers like a map does, except that it may forget: what lies two pages below the floor, and the
// lowest pages when it is full. It never answers for a message of another time.
func TestDecidedLog(t *testing.T) {
	t.Parallel()
	type message struct {
		seq    uint64
		stored int64
	}
	rapid.Check(t, func(rt *rapid.T) {
		var log decidedLog
		model := map[message]verdict{}
		at := map[uint64]int64{} // the time of the last message of a sequence
		floor := uint64(0)
		seqs := rapid.OneOf(rapid.Uint64Range(1, 50), rapid.Uint64Range(1, 10*pageSize), rapid.Uint64Range(1, 1<<40))
		draw := func() message {
			return message{seqs.Draw(rt, "seq"), rapid.Int64Range(1, 3).Draw(rt, "stored")}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				m, v := draw(), rapid.SampledFrom([]verdict{ack, term}).Draw(rt, "verdict")
				delete(model, message{m.seq, at[m.seq]}) // one message a sequence is remembered
				log.add(m.seq, m.stored, v)
				model[m], at[m.seq] = v, m.stored
			},
			"find": func(rt *rapid.T) {
				m := draw()
				if got, want := log.find(m.seq, m.stored), model[m]; got != want {
					rt.Fatalf("%+v: %v, want %v", m, got, want)
				}
			},
			"prune": func(rt *rapid.T) {
				floor = seqs.Draw(rt, "floor")
				log.prune(floor)
				for m := range model {
					switch got := log.find(m.seq, m.stored); {
					case (m.seq/pageSize+2)*pageSize <= floor:
						if got != none {
							rt.Fatalf("%+v is remembered below floor %d", m, floor)
						}
						delete(model, m)
					case got != model[m]:
						rt.Fatalf("%+v was forgotten above floor %d", m, floor)
					}
				}
			},
			"": func(rt *rapid.T) {
				for m, want := range model {
					if got := log.find(m.seq, m.stored); got != want {
						rt.Fatalf("%+v: %v, want %v", m, got, want)
					}
				}
			},
		})
	})
}

// Its memory is bounded: the lowest pages go first.
func TestL2_DecidedLogIsBounded(t *testing.T) {
	t.Parallel()
	var log decidedLog
	for n := range uint64(maxPages + 10) {
		log.add(n*pageSize, 1, ack)
	}
	if len(log.pages) != maxPages {
		t.Errorf("%d pages, want %d", len(log.pages), maxPages)
	}
	if log.find(9*pageSize, 1) != none || log.find(10*pageSize, 1) != ack || log.find((maxPages+9)*pageSize, 1) != ack {
		t.Error("others than the lowest were forgotten")
	}
	log.prune(1 << 62)
	if len(log.pages) != 0 {
		t.Errorf("%d pages remain below the floor", len(log.pages))
	}
}
