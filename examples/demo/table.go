package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	labelWidth = 54
	cellWidth  = 13
)

// printTable prints what the run comes to.
func printTable(w io.Writer, st style, v *verdict, resync time.Duration) {
	line := func(label string, cells ...string) {
		fmt.Fprint(w, pad(label, -labelWidth))
		for _, cell := range cells {
			fmt.Fprint(w, pad(cell, cellWidth))
		}
		fmt.Fprintln(w)
	}
	// both prints one number of each controller; one that no core-NATS source has is a dash.
	both := func(label string, of func(*column) string) {
		line(label, of(&v.columns[coreNATS]), of(&v.columns[jetStream]))
	}
	number := func(label string, of func(*column) int) {
		both(label, func(c *column) string { return thousands(of(c)) })
	}
	// some prints a line that explains another one, if it explains anything.
	some := func(label string, of func(*column) int) {
		if of(&v.columns[coreNATS])+of(&v.columns[jetStream]) > 0 {
			number(label, of)
		}
	}
	rule := strings.Repeat("─", labelWidth+2*cellWidth)

	line("", st.bold(names[coreNATS]), st.bold(names[jetStream]))
	fmt.Fprintln(w, rule)
	number("events published", func(*column) int { return v.published })
	number("  filtered by OnUpdate: the phase did not change", func(*column) int { return v.published - v.relevant })
	line("  settled: acknowledged, and the server says so", "–", thousands(v.published-v.columns[jetStream].unsettled))
	number("  reconciled", func(c *column) int { return c.reconciled })
	both(st.bold("  LOST"), func(c *column) string {
		if c.lost > 0 {
			return st.red(thousands(c.lost))
		}
		return st.green("0")
	})
	number("    held by the process when it was killed", func(c *column) int { return c.inProcess })
	number("    published while it was down", func(c *column) int { return c.whileDown })
	number("    published while its link to NATS was cut", func(c *column) int { return c.whileCut })
	some("    otherwise", func(c *column) int { return c.elsewhere })
	fmt.Fprintln(w, rule)
	fmt.Fprintln(w, "what made up for the lost events, later")
	number("    a later event of the same Stage", func(c *column) int { return c.byEvent })
	number("    the list of all Stages", func(c *column) int { return c.byList })
	number("      missed by a list of Stages with open requests", func(c *column) int { return c.closed })
	some("    nothing, until the end", func(c *column) int { return c.never })
	fmt.Fprintln(w, rule)
	fmt.Fprintln(w, "time to converge: until every Stage was right again")
	for why, label := range [...]string{
		wasKilled: "    after SIGKILL, from the start of the new process",
		wasCut:    "    after the cut, from the moment the link was back",
	} {
		both(label, func(c *column) string {
			switch r := c.returns[why]; {
			case !r.happened:
				return "–"
			case !r.done:
				return st.red("never")
			default:
				return duration(r.took)
			}
		})
	}
	line("messages handed out more than once", "–", thousands(int(v.columns[jetStream].redelivered)))
	both("event to reconcile, while nothing is wrong: p50", func(c *column) string { return duration(c.p50) })
	both("                                            p99", func(c *column) string { return duration(c.p99) })
	fmt.Fprintln(w, rule)
	fmt.Fprintf(w, `Lost: committed, published, confirmed by the stream, let through by OnUpdate, and yet no attempt of
the controller was due to it. The effect of such an event shows when something else happens to cause
an attempt on its Stage. Both controllers list every Stage at start, which is why a restart alone is
made up for soon, and then every %v (here; the longer it is, the longer Stages stay wrong after a cut).
`, resync)
}

// pad fills s with blanks up to width, on its right if width is negative. Colours take no room.
func pad(s string, width int) string {
	left := max(0, max(width, -width)-utf8.RuneCountInString(uncoloured(s)))
	if width < 0 {
		return s + strings.Repeat(" ", left)
	}
	return strings.Repeat(" ", left) + s
}

// thousands writes a number as 12,345.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// duration writes a duration as somebody who compares two of them likes it.
func duration(d time.Duration) string {
	switch {
	case d == 0:
		return "–" // nothing was measured
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
}
