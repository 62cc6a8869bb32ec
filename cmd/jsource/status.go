package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/levelstream/jsource/jsource"
)

// status prints how durables are doing.
func status(ctx context.Context, t *task) error {
	var reports []jsource.Report
	switch args := t.Args(); args.Len() {
	case 0:
		var err error
		if reports, err = t.admin.Reports(ctx); err != nil {
			return err
		}
	case 2:
		r, err := t.admin.Report(ctx, args.Get(0), args.Get(1))
		if err != nil {
			return err
		}
		reports = append(reports, r)
	default:
		return errors.New("status takes no arguments, or a stream and a durable")
	}
	if t.json {
		return t.printJSON(reports)
	}
	if len(reports) == 0 {
		fmt.Fprintln(t.out, "No durable of a source. One that is used with Bind is shown by: jsource status STREAM DURABLE")
		return nil
	}
	printReports(t.out, reports, time.Now())
	return nil
}

// printJSON prints v, indented.
func (t *task) printJSON(v any) error {
	enc := json.NewEncoder(t.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// table starts a table whose columns are as wide as they need to be.
func table(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

func printReports(out io.Writer, reports []jsource.Report, now time.Time) {
	w := table(out)
	fmt.Fprintln(w, "STREAM\tDURABLE\tPENDING\tUNSETTLED\tREDELIVERED\tOLDEST\tDEAD\tREPLICAS")
	for _, r := range reports {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%d\t%d\n",
			r.Stream, r.Durable, r.Pending, r.Unsettled, r.Redelivered, age(r.Oldest, now), r.Dead, len(r.Replicas))
	}
	_ = w.Flush() // as with fmt.Fprintln, whoever reads the output sees that it ends
	for _, r := range reports {
		for _, replica := range r.Replicas {
			printReplica(out, r.Durable, replica, now)
		}
	}
}

// printReplica prints what holds up one replica, and nothing if nothing does.
func printReplica(out io.Writer, durable string, r jsource.Replica, now time.Time) {
	if r.Err == "" && len(r.Holding) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s on %s, process %d, holds %d messages\n", durable, r.Host, r.PID, r.Held)
	if r.Err != "" {
		fmt.Fprintln(out, "  not healthy:", r.Err)
	}
	if len(r.Holding) == 0 {
		return
	}
	w := table(out)
	fmt.Fprintln(w, "  HELD BY REQUEST\tMESSAGES\tFOR\tFAILED ATTEMPTS\tRUNNING\tLAST ERROR")
	for _, h := range r.Holding {
		fmt.Fprintf(w, "  %s\t%d\t%s\t%d\t%t\t%s\n", h.Request, h.Messages, age(h.Since, now), h.Attempts, h.Running, h.LastErr)
	}
	_ = w.Flush()
}

// age is how long ago at was, for people.
func age(at, now time.Time) string {
	if at.IsZero() {
		return "-"
	}
	d := max(0, now.Sub(at))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	default:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
}
