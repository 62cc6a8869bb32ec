package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// column is one of the table's: what stands above it, and what it says of a contender.
type column struct {
	head string // lines, separated by |
	cell func(*summary) string
}

// short says what is particular to a run.
func (s *Spec) short() string {
	rate := "as fast as it goes"
	if s.Rate > 0 {
		rate = thousands(int64(s.Rate)) + " events/s"
	}
	keys := thousands(int64(s.Keys)) + " keys"
	switch s.Keys {
	case 0:
		keys = "a key for each event"
	case 1:
		keys = "one key"
	}
	return fmt.Sprintf("%s, %s", rate, keys)
}

func (s *Spec) long() string {
	where := fmt.Sprintf("%d server(s) in this process", s.Replicas)
	switch {
	case s.URL != "":
		where = "the server of -nats"
	case s.Server == ownProcess:
		where = fmt.Sprintf("%d server(s) in a process of their own", s.Replicas)
	}
	text := fmt.Sprintf("%s events of %s B, %s; reconcile: %s, %d workers; stream: %s, %d replica(s); %d publisher(s); %s",
		thousands(int64(s.Events)), thousands(int64(s.Payload)), s.short(), s.Reconcile, s.Workers, s.Storage, s.Replicas,
		s.Publishers, where)
	if s.Fault != faultNone {
		text += "; fault: " + s.Fault
	}
	return text
}

// printTable prints what the contenders came to on one Spec.
func printTable(w io.Writer, s *Spec, all []summary, rounds int) {
	fmt.Fprintln(w, s.long())
	columns := throughputColumns(all[0].Contender)
	if s.Rate > 0 {
		columns = latencyColumns()
	}
	columns = append(columns, costColumns(s)...)
	columns = append(columns, outcomeColumns()...)
	rows := make([][]string, 0, len(all)+3)
	depth := 0
	for _, c := range columns {
		depth = max(depth, strings.Count(c.head, "|")+1)
	}
	for i := range depth {
		var row []string
		for _, c := range columns {
			lines := strings.Split(c.head, "|")
			line := ""
			if i < len(lines) {
				line = lines[i]
			}
			row = append(row, line)
		}
		rows = append(rows, row)
	}
	for i := range all {
		var row []string
		for _, c := range columns {
			row = append(row, c.cell(&all[i]))
		}
		rows = append(rows, row)
	}
	printRows(w, rows, depth)
	if rounds > 1 {
		fmt.Fprintf(w, "Medians of %d rounds, in which all took turns; lost and settled: the worst.\n", rounds)
	}
	for i := range all {
		if late := all[i].Late; late != nil && late.P99 > 1000 && s.Fault == faultNone {
			fmt.Fprintf(w, "%s: the load itself was late by %s at p99, which is part of these latencies.\n",
				all[i].Contender, micros(late.P99))
		}
	}
	fmt.Fprintln(w)
}

// printRows aligns the first and the last column to the left and the others to the right.
func printRows(w io.Writer, rows [][]string, head int) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	total := 2 * (len(widths) - 1)
	for _, width := range widths {
		total += width
	}
	for i, row := range rows {
		if i == head {
			fmt.Fprintln(w, strings.Repeat("─", total))
		}
		var line strings.Builder
		for j, cell := range row {
			gap := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell))
			switch {
			case j == 0:
				line.WriteString(cell + gap)
			case j == len(row)-1:
				line.WriteString("  " + cell)
			default:
				line.WriteString("  " + gap + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

func nameColumn() column {
	return column{"", func(r *summary) string { return r.Contender }}
}

func throughputColumns(first string) []column {
	return []column{
		nameColumn(),
		{"events/s|settled", func(r *summary) string { return thousands(int64(r.EventsPerSecond)) }},
		{"times|" + first, func(r *summary) string { return fmt.Sprintf("%.2f", r.ratio) }},
	}
}

func latencyColumns() []column {
	of := func(get func(*summary) *Latency, field func(*Latency) float64) func(*summary) string {
		return func(r *summary) string {
			if l := get(r); l != nil {
				return micros(field(l))
			}
			return "–"
		}
	}
	reconcile := func(r *summary) *Latency { return r.ToReconcile }
	settled := func(r *summary) *Latency { return r.ToSettled }
	p50 := func(l *Latency) float64 { return l.P50 }
	p99 := func(l *Latency) float64 { return l.P99 }
	return []column{
		nameColumn(),
		{"event to|reconcile|p50", of(reconcile, p50)},
		{"||p99", of(reconcile, p99)},
		{"||p99.9", of(reconcile, func(l *Latency) float64 { return l.P999 })},
		{"||max", of(reconcile, func(l *Latency) float64 { return l.Max })},
		{"event to|settled|p50", of(settled, p50)},
		{"||p99", of(settled, p99)},
	}
}

func costColumns(s *Spec) []column {
	all := []column{
		{"reconciles|per event", func(r *summary) string { return fmt.Sprintf("%.3f", r.AttemptsPerEvent) }},
		{"CPU µs|per event", func(r *summary) string { return fmt.Sprintf("%.1f", r.CPUMicrosPerEvent) }},
	}
	if s.Server == ownProcess && s.URL == "" {
		all = append(all, column{"server's|CPU µs", func(r *summary) string { return fmt.Sprintf("%.1f", r.ServerMicros) }})
	}
	return append(all,
		column{"allocs|per event", func(r *summary) string { return fmt.Sprintf("%.1f", r.AllocsPerEvent) }},
		column{"peak|MiB", func(r *summary) string { return fmt.Sprintf("%.0f", float64(r.PeakMemory)/(1<<20)) }},
		column{"wire B|in, out", func(r *summary) string { return fmt.Sprintf("%.0f, %.0f", r.WireIn, r.WireOut) }},
	)
}

func outcomeColumns() []column {
	return []column{
		{"settled", func(r *summary) string {
			if r.Core {
				return "–"
			}
			return thousands(int64(r.Settled))
		}},
		{"lost", func(r *summary) string { return thousands(int64(r.Lost)) }},
		{"what it had received when it dies is", func(r *summary) string {
			if r.Unsafe {
				return "! " + r.Promise
			}
			return "  " + r.Promise
		}},
	}
}

// micros writes microseconds as somebody who compares two of them likes it.
func micros(us float64) string {
	switch {
	case us >= 10_000_000:
		return fmt.Sprintf("%.0f s", us/1e6)
	case us >= 1_000_000:
		return fmt.Sprintf("%.1f s", us/1e6)
	case us >= 10_000:
		return fmt.Sprintf("%.0f ms", us/1e3)
	case us >= 1000:
		return fmt.Sprintf("%.1f ms", us/1e3)
	default:
		return fmt.Sprintf("%.0f µs", us)
	}
}

// thousands writes a number as 12,345.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
