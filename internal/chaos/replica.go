//go:build unix

package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/history"
)

// replica is one replica as the parent sees it.
type replica struct {
	name    string
	wire    *wire
	cmd     *exec.Cmd
	rec     *history.Recorder
	log     *tail
	started time.Time
	done    chan struct{} // closed when it is gone and everything it said is recorded

	paused time.Duration // since when it is paused; 0: it is not. Only the world's goroutine asks

	mu      sync.Mutex
	wanted  string        // how it was asked to end; empty: it was not
	asked   time.Time     // when
	err     error         // how it ended
	took    time.Duration // from being asked to the end
	mapped  int
	noticed bool
}

// startReplica starts a process of this binary as a replica.
func startReplica(tb testing.TB, name string, s settings, w *wire, rec *history.Recorder, logs string) (*replica, error) {
	s.URL = w.url()
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	reports, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r := &replica{name: name, wire: w, rec: rec, log: new(tail), started: time.Now(), done: make(chan struct{})}
	// The argument is for a test binary that forgets RunChild: it must not run its tests.
	r.cmd = exec.Command(exe, "-test.run=^$")
	r.cmd.Env = append(os.Environ(), replicaVariable+"="+string(text))
	r.cmd.ExtraFiles = []*os.File{pipe}
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	r.cmd.WaitDelay = time.Second
	if logs != "" {
		f, err := os.Create(filepath.Join(logs, "replica-"+name+".log"))
		if err != nil {
			return nil, err
		}
		r.log.file = f
	}
	if _, err := r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	err = r.cmd.Start()
	pipe.Close()
	if err != nil {
		reports.Close()
		return nil, err
	}
	var reading sync.WaitGroup
	reading.Go(func() { r.read(tb, reports) })
	go func() {
		defer close(r.done)
		err := r.cmd.Wait()
		reading.Wait()
		r.wire.retire()
		r.log.close()
		r.mu.Lock()
		r.err = err
		if !r.asked.IsZero() {
			r.took = time.Since(r.asked)
		}
		r.mu.Unlock()
	}()
	tb.Cleanup(func() {
		_ = r.cmd.Process.Kill() // also one that is paused
		<-r.done
	})
	return r, nil
}

// read records what the replica reports until its end.
func (r *replica) read(tb testing.TB, reports io.ReadCloser) {
	defer reports.Close()
	lines := bufio.NewScanner(reports)
	for lines.Scan() {
		if err := r.line(lines.Text()); err != nil {
			tb.Errorf("replica %s reported %q: %v", r.name, lines.Text(), err)
		}
	}
}

func (r *replica) line(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	var (
		n    uint64
		text string
		seen uint64
		a, b int64
		bad  bool
	)
	switch kind {
	case "m":
		if _, err := fmt.Sscan(rest, &n, &a, &b, &bad); err != nil {
			return err
		}
		r.rec.Mapped(history.Mapping{Replica: r.name, Call: n, Begin: time.Duration(a), End: time.Duration(b), Failed: bad})
		r.mu.Lock()
		r.mapped++
		r.mu.Unlock()
	case "b":
		if _, err := fmt.Sscan(rest, &n, &text, &a); err != nil {
			return err
		}
		r.rec.Began(r.name, n, text, time.Duration(a))
	case "e":
		if _, err := fmt.Sscan(rest, &n, &text, &seen, &a); err != nil {
			return err
		}
		r.rec.Ended(r.name, n, history.Outcome(text), seen, time.Duration(a))
	case "f":
		if _, err := fmt.Sscan(rest, &a); err != nil {
			return err
		}
		r.rec.Change(func(h *history.History) {
			h.Forgets = append(h.Forgets, history.Forget{Replica: r.name, At: time.Duration(a)})
		})
	default:
		return fmt.Errorf("unknown kind of report")
	}
	return nil
}

// kill ends it as kill -9 does.
func (r *replica) kill() {
	r.ask("killed")
	_ = r.cmd.Process.Kill()
	<-r.done
}

// terminate asks it to stop, and does not wait.
func (r *replica) terminate() {
	r.ask("terminated")
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
}

// pause stops it where it is, until goOn.
func (r *replica) pause() {
	if r.paused == 0 {
		r.paused = now()
		_ = r.cmd.Process.Signal(syscall.SIGSTOP)
	}
}

// goOn lets it run again, if it was paused.
func (r *replica) goOn() {
	if r.paused == 0 {
		return
	}
	_ = r.cmd.Process.Signal(syscall.SIGCONT)
	p := history.Pause{Replica: r.name, Begin: r.paused, End: now()}
	r.paused = 0
	r.rec.Change(func(h *history.History) { h.Pauses = append(h.Pauses, p) })
}

func (r *replica) ask(how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wanted == "" {
		r.asked = time.Now()
	}
	r.wanted = how
}

func (r *replica) gone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// tail keeps the last of what is written to it, and all of it in a file if there is one.
type tail struct {
	mu   sync.Mutex
	last []byte
	file *os.File
}

const tailSize = 16 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if over := len(t.last) - tailSize; over > tailSize {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	if t.file != nil {
		return t.file.Write(b)
	}
	return len(b), nil
}

func (t *tail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}
