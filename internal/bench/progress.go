package bench

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress shows how far the present run is: in a terminal one line that is drawn again and again,
// elsewhere one every few seconds.
type progress struct {
	out      io.Writer
	terminal bool
	what     string
	events   int
	stop     chan struct{}
	done     sync.WaitGroup
}

const (
	drawEvery = 200 * time.Millisecond
	lineEvery = 5 * time.Second
	clearLine = "\r\x1b[K"
)

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return p
}

// begin says which run it is.
func (p *progress) begin(n, of int, contender string, s *Spec) {
	p.what = fmt.Sprintf("[%d/%d] %s, %s", n, of, contender, s.short())
	p.events = s.Events
	p.say(p.what + ": getting ready")
}

func (p *progress) say(text string) {
	if p.terminal {
		fmt.Fprint(p.out, clearLine+text)
		return
	}
	fmt.Fprintln(p.out, text)
}

// watch shows what a Probe sees until end.
func (p *progress) watch(probe *Probe) {
	p.stop = make(chan struct{})
	p.done.Go(func() {
		every := lineEvery
		if p.terminal {
			every = drawEvery
		}
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		last, at := int64(0), time.Now()
		for {
			select {
			case <-p.stop:
				return
			case now := <-ticker.C:
				done := probe.done.Load()
				p.say(fmt.Sprintf("%s: %s of %s events, %s a second", p.what, thousands(done), thousands(int64(p.events)),
					thousands(int64(float64(done-last)/now.Sub(at).Seconds()))))
				last, at = done, now
			}
		}
	})
}

// end takes the line away.
func (p *progress) end() {
	if p.stop != nil {
		close(p.stop)
		p.done.Wait()
		p.stop = nil
	}
	if p.terminal {
		fmt.Fprint(p.out, clearLine)
	}
}
