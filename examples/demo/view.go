package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// view shows a run while it goes on: in a terminal a few lines that are drawn again and again, elsewhere
// (a file, CI) one line a second. What happens stays above them.
type view struct {
	out    io.Writer
	term   terminal
	ledger *ledger
	total  int // events
	began  time.Time
	stop   chan struct{}
	done   sync.WaitGroup

	mu    sync.Mutex
	drawn int // lines that the next drawing replaces
}

const (
	drawEvery = 200 * time.Millisecond
	lineEvery = time.Second
	barWidth  = 30
)

func newView(out io.Writer, t terminal, l *ledger, total int) *view {
	return &view{out: out, term: t, ledger: l, total: total, began: time.Now(), stop: make(chan struct{})}
}

// start begins to show the run, until close.
func (v *view) start() { v.done.Go(v.show) }

// close takes the view away; what happened stays.
func (v *view) close() {
	close(v.stop)
	v.done.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
}

func (v *view) show() {
	every := lineEvery
	if v.term.redraws {
		every = drawEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-v.stop:
			return
		case <-ticker.C:
			v.mu.Lock()
			v.draw()
			v.mu.Unlock()
		}
	}
}

// say tells what happens.
func (v *view) say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	text := pad(fmt.Sprintf("%.1f s", time.Since(v.began).Seconds()), 7) + "  " + fmt.Sprintf(format, args...)
	fmt.Fprintln(v.out, v.term.style.bold(text))
	if v.term.redraws {
		v.draw()
	}
}

// erase takes away what was drawn last. The caller holds mu.
func (v *view) erase() {
	if v.drawn > 0 {
		fmt.Fprintf(v.out, "%s%dA%s0J", escape, v.drawn, escape)
	}
	v.drawn = 0
}

// draw shows how things are. The caller holds mu.
func (v *view) draw() {
	s := v.ledger.snapshot()
	elapsed := time.Since(v.began)
	if !v.term.redraws {
		fmt.Fprintln(v.out, s.line(elapsed, v.total))
		return
	}
	v.erase()
	lines := s.lines(elapsed, v.total, v.term.style)
	width := v.term.width()
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(cut(l, width-1) + "\n")
	}
	fmt.Fprint(v.out, b.String())
	v.drawn = len(lines)
}

// cut shortens a line to width characters, so that the terminal does not break it. Colours take no room.
func cut(line string, width int) string {
	var b strings.Builder
	for n := 0; line != ""; {
		if strings.HasPrefix(line, escape) {
			code, rest, _ := strings.Cut(line, "m")
			b.WriteString(code + "m")
			line = rest
			continue
		}
		_, size := utf8.DecodeRuneInString(line)
		if n++; n <= width {
			b.WriteString(line[:size])
		}
		line = line[size:]
	}
	return b.String()
}
