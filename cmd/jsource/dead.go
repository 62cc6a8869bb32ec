package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/levelstream/jsource/jsource"
)

func (t *task) filter() jsource.LetterFilter {
	return jsource.LetterFilter{Stream: t.String("stream"), Durable: t.String("durable"), Reason: t.String("reason")}
}

// list prints dead letters, one a line.
func list(ctx context.Context, t *task) error {
	if t.Args().Present() {
		return errors.New("dead list takes no arguments; dead show takes IDs")
	}
	if t.json {
		return t.printLetters(t.admin.DeadLetters(ctx, t.filter()))
	}
	now, n := time.Now(), 0
	w := table(t.out)
	for l, err := range t.admin.DeadLetters(ctx, t.filter()) {
		if err != nil {
			return errors.Join(w.Flush(), err)
		}
		if n++; n == 1 {
			fmt.Fprintln(w, "ID\tAGE\tDURABLE\tSUBJECT\tREASON\tREQUEST\tERROR")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, age(l.Died, now), l.Durable, l.Subject, l.Reason, l.Request, cut(l.Error, 80))
	}
	if n == 0 {
		fmt.Fprintln(t.out, "No dead letters.")
	}
	return w.Flush()
}

// cut shortens s to at most n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// letters yields those that the arguments or --all name.
func (t *task) letters(ctx context.Context) (iter.Seq2[*jsource.DeadLetter, error], error) {
	ids := t.Args().Slice()
	switch all := t.Bool("all"); {
	case all && len(ids) > 0:
		return nil, errors.New("give IDs or --all, not both")
	case all:
		return t.admin.DeadLetters(ctx, t.filter()), nil
	case len(ids) == 0:
		return nil, errors.New("give the IDs of dead letters, as dead list prints them")
	case t.filter() != jsource.LetterFilter{}:
		return nil, errors.New("filters go with --all, not with IDs")
	}
	return func(yield func(*jsource.DeadLetter, error) bool) {
		for _, id := range ids {
			if !yield(t.admin.DeadLetter(ctx, id)) {
				return
			}
		}
	}, nil
}

// show prints all of some dead letters.
func show(ctx context.Context, t *task) error {
	letters, err := t.letters(ctx)
	if err != nil {
		return err
	}
	if t.json {
		return t.printLetters(letters)
	}
	for l, err := range letters {
		if err != nil {
			return err
		}
		w := table(t.out)
		line := func(name string, value any) {
			if s := fmt.Sprint(value); s != "" {
				fmt.Fprintf(w, "%s:\t%s\n", name, s)
			}
		}
		line("ID", l.ID)
		line("Original", fmt.Sprintf("sequence %d of stream %s, on %s", l.Sequence, l.Stream, l.Subject))
		line("Durable", l.Durable)
		line("Reason", l.Reason)
		line("Error", l.Error)
		line("Request", l.Request)
		if l.Request != "" {
			line("Attempts", l.Attempts)
		}
		line("Deliveries", l.Deliveries)
		line("Stored", l.Stored)
		line("First seen", l.FirstSeen)
		line("Died", l.Died)
		line("Superseded", l.Superseded)
		line("No payload", l.Reference)
		for _, name := range slices.Sorted(maps.Keys(l.Header)) {
			for _, value := range l.Header[name] {
				line("Header", fmt.Sprintf("%s: %q", name, value))
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(t.out, "\n%s\n\n", printable(l.Data))
	}
	return nil
}

// replay publishes the events of dead letters again.
func replay(ctx context.Context, t *task) error {
	return t.each(ctx, "replayed", func(ctx context.Context, l *jsource.DeadLetter) (done, error) {
		r, err := t.admin.Replay(ctx, l)
		return done{Stream: r.Stream, Sequence: r.Sequence, Duplicate: r.Duplicate}, err
	})
}

// drop deletes dead letters.
func drop(ctx context.Context, t *task) error {
	return t.each(ctx, "dropped", func(ctx context.Context, l *jsource.DeadLetter) (done, error) {
		return done{}, t.admin.Drop(ctx, l)
	})
}

// done is what became of one letter.
type done struct {
	ID        string `json:"id"`
	Did       string `json:"did"`
	Stream    string `json:"stream,omitempty"` // where the event is now
	Sequence  uint64 `json:"sequence,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"` // it was there before
}

// each does something with each letter and says so, as it goes. It goes on with the next when it fails with one.
func (t *task) each(ctx context.Context, did string, do func(context.Context, *jsource.DeadLetter) (done, error)) error {
	letters, err := t.letters(ctx)
	if err != nil {
		return err
	}
	var (
		n    int
		errs []error
	)
	for l, err := range letters {
		var d done
		if err == nil {
			d, err = do(ctx, l)
		}
		if err != nil {
			errs = append(errs, err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		n++
		d.ID, d.Did = l.ID, did
		switch {
		case t.json:
			err = t.printJSON(d)
		case d.Duplicate:
			_, err = fmt.Fprintf(t.out, "%s: %s, and its event was published before, as sequence %d of stream %s\n", d.ID, did, d.Sequence, d.Stream)
		case d.Stream != "":
			_, err = fmt.Fprintf(t.out, "%s: %s, as sequence %d of stream %s\n", d.ID, did, d.Sequence, d.Stream)
		default:
			_, err = fmt.Fprintf(t.out, "%s: %s\n", d.ID, did)
		}
		if err != nil {
			return err
		}
	}
	if !t.json {
		fmt.Fprintf(t.out, "%d %s, %d failed\n", n, did, len(errs))
	}
	return errors.Join(errs...)
}
