package main

import (
	"strings"
	"testing"
	"time"
)

// A run of five changes of one Stage: the first is reconciled, one each is lost while the process was down
// and while the link was cut, one is made up for by a later event, one by the list, and one by nothing.
func TestVerdict(t *testing.T) {
	t.Parallel()
	stage := stageKey{"p", "s"}
	l := newLedger([]stageKey{stage})
	began := time.Now()
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	row := promotionRequestRow{Project: "p", Stage: "s", Phase: pending}
	for n, s := range []int{10, 20, 30, 40, 50, 60} {
		number := int64(n + 1)
		l.committed([]change{{Number: number, New: &row}})
		l.publishing(number, at(s))
		l.published(number, at(s))
	}
	progress := row
	progress.Step++
	l.committed([]change{{Number: 7, Old: &row, New: &progress}})
	l.publishing(7, at(61))
	l.published(7, at(61))

	for v := range names {
		l.begin(v, wasKilled, at(19))
		l.end(v, at(25))
		l.comeBack(v, wasKilled, at(24))
		l.begin(v, wasCut, at(29))
		l.end(v, at(35))
		l.comeBack(v, wasCut, at(35))
	}
	for n := range int64(6) {
		l.reconciled(jetStream, n+1, at(int(n+1)*10).Add(time.Millisecond))
		l.reconciled(jetStream, n+1, at(70)) // a copy
		l.updated(jetStream, stage, update{before: n, seen: n + 1, events: 1}, at(62))
	}
	l.reconciled(coreNATS, 1, at(10))
	l.updated(coreNATS, stage, update{before: 0, seen: 1, events: 1}, at(10))
	l.reconciled(coreNATS, 4, at(40))
	l.updated(coreNATS, stage, update{before: 1, seen: 4, open: 1, events: 1}, at(40))
	l.updated(coreNATS, stage, update{before: 4, seen: 5, open: 0}, at(55))

	v := l.verdict()
	if v.published != 7 || v.relevant != 6 {
		t.Errorf("published %d, relevant %d", v.published, v.relevant)
	}
	core := v.columns[coreNATS]
	want := column{
		reconciled: 2, lost: 4, first: 2,
		whileDown: 1, whileCut: 1, elsewhere: 2,
		byEvent: 2, byList: 1, closed: 1, never: 1,
		behind:  1,
		returns: core.returns,
	}
	want.p50, want.p99 = core.p50, core.p99
	if core != want {
		t.Errorf("core NATS:\n got %+v\nwant %+v", core, want)
	}
	if r := core.returns[wasCut]; r.done {
		t.Errorf("core NATS has converged: %+v", r)
	}
	jet := v.columns[jetStream]
	if jet.lost != 0 || jet.reconciled != 6 || jet.behind != 0 || jet.never != 0 {
		t.Errorf("JetStream: %+v", jet)
	}
	if r := jet.returns[wasCut]; !r.done || r.took != 27*time.Second {
		t.Errorf("JetStream converged: %+v", r)
	}
	if jet.p50 != time.Millisecond || jet.p99 != time.Millisecond {
		t.Errorf("latencies %v and %v: copies or outages are in them", jet.p50, jet.p99)
	}
	if err := v.failure(1); err != nil {
		t.Error(err)
	}

	for _, broken := range []column{{lost: 3, first: 9}, {behind: 1}, {unsettled: 2}} {
		v.columns[jetStream] = broken
		if err := v.failure(42); err == nil || !strings.Contains(err.Error(), "-seed 42") {
			t.Errorf("%+v: %v", broken, err)
		}
	}
}

// What was published just before the kill, and not reconciled, was held by the process; what was published
// just before the cut was on its way.
func TestLostJustBefore(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	for why, want := range map[cause]column{
		wasKilled: {inProcess: 2, elsewhere: 1},
		wasCut:    {whileCut: 1, elsewhere: 2},
	} {
		a := &account{outages: []outage{{cause: why, begun: begun, end: begun.Add(time.Second)}}}
		var c column
		for _, before := range []time.Duration{time.Millisecond, 2 * time.Second, time.Minute} {
			c.blame(a, &event{begun: begun.Add(-before), ended: begun.Add(-before)})
		}
		if c != want {
			t.Errorf("cause %d: got %+v, want %+v", why, c, want)
		}
	}
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	if p50, p99 := percentiles(nil); p50 != 0 || p99 != 0 {
		t.Error(p50, p99)
	}
	var list []time.Duration
	for i := 200; i > 0; i-- {
		list = append(list, time.Duration(i))
	}
	if p50, p99 := percentiles(list); p50 != 100 || p99 != 198 {
		t.Error(p50, p99)
	}
}
