package main

import (
	"fmt"
	"strings"
	"time"
)

// snapshot is how things are at one moment.
type snapshot struct {
	published, relevant int
	rows                [2]row
}

type row struct {
	reconciled, owed, behind int
	settled                  int
	redelivered              uint64
	p50, p99                 time.Duration
}

func (l *ledger) snapshot() snapshot {
	l.mu.Lock()
	s := snapshot{published: l.sent, relevant: l.relevant}
	var recent [2][]time.Duration
	for i, a := range l.accounts {
		s.rows[i] = row{
			reconciled: a.count, owed: a.owed, behind: l.behind(a), settled: a.settled, redelivered: a.redelivered,
		}
		recent[i] = a.recent()
	}
	l.mu.Unlock()
	for i := range s.rows {
		s.rows[i].p50, s.rows[i].p99 = percentiles(recent[i])
	}
	return s
}

// lines is the snapshot for a terminal.
func (s *snapshot) lines(elapsed time.Duration, total int, st style) []string {
	full := barWidth * s.published / total
	lines := []string{
		"",
		fmt.Sprintf("%s  %s  %3d %%  %s of %s events published, %s of them phase changes",
			pad(fmt.Sprintf("%.1f s", elapsed.Seconds()), 7),
			st.green(strings.Repeat("█", full))+st.dim(strings.Repeat("░", barWidth-full)),
			100*s.published/total, thousands(s.published), thousands(total), thousands(s.relevant)),
		st.dim("           reconciled   owed  settled  redelivered      p50      p99  Stages behind"),
	}
	for i, r := range s.rows {
		owed, settled, redelivered := "–", "–", "–" // core NATS has none of them
		if i == jetStream {
			owed, settled, redelivered = thousands(r.owed), thousands(r.settled), thousands(int(r.redelivered))
		}
		behind := pad(thousands(r.behind), 15)
		if r.behind > 50 {
			behind = st.red(behind)
		}
		lines = append(lines, "  "+pad(names[i], -9)+pad(thousands(r.reconciled), 10)+pad(owed, 7)+pad(settled, 9)+
			pad(redelivered, 13)+pad(duration(r.p50), 9)+pad(duration(r.p99), 9)+behind)
	}
	return lines
}

// line is the snapshot for a log.
func (s *snapshot) line(elapsed time.Duration, total int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %3d %%  published %s", pad(fmt.Sprintf("%.1f s", elapsed.Seconds()), 7),
		100*s.published/total, thousands(s.published))
	for i, r := range s.rows {
		fmt.Fprintf(&b, " | %s: reconciled %s", names[i], thousands(r.reconciled))
		if i == jetStream {
			fmt.Fprintf(&b, ", owed %s, settled %s, redelivered %s",
				thousands(r.owed), thousands(r.settled), thousands(int(r.redelivered)))
		}
		fmt.Fprintf(&b, ", behind %s, p50 %s, p99 %s", thousands(r.behind), duration(r.p50), duration(r.p99))
	}
	return b.String()
}
