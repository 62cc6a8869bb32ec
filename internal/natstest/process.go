package natstest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// childVariable names the child function a re-executed test binary is to run.
const childVariable = "JSOURCE_TEST_CHILD"

// RunChild runs the child function this process was started for by [Child], and exits; in the test
// process itself it returns at once. Call it first thing in TestMain, or let [Main] do so.
//
// A child that returns exits with 0. It also exits, with 3, when the test process is gone, however
// that came about: it never outlives it.
func RunChild(children map[string]func()) {
	name, isChild := os.LookupEnv(childVariable)
	if !isChild {
		return
	}
	run, known := children[name]
	if !known {
		fmt.Fprintf(os.Stderr, "no child function %q\n", name)
		os.Exit(2)
	}
	go func() {
		// The test process holds the other end open and never writes.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	run()
	os.Exit(0)
}

// Process is a child of the test process: the same binary running one function. Methods may be called
// from any goroutine, except Wait and WaitLine, which fail the test.
type Process struct {
	tb     testing.TB
	name   string
	cmd    *exec.Cmd
	out    lineWriter
	errs   bytes.Buffer  // safe to read once exited
	exited chan struct{} // closed when it is gone and its output is complete
	err    error         // of its exit; valid once exited
	read   int           // lines WaitLine has passed
}

// Child starts the test binary as the child function name, which the package's TestMain must know,
// with env ("KEY=value") added to its environment. It is killed at cleanup, and what it wrote to
// standard error is logged if the test failed.
func Child(tb testing.TB, name string, env ...string) *Process {
	tb.Helper()
	p := &Process{
		tb: tb, name: name,
		// The argument is for a binary whose TestMain forgets RunChild: it must not run all its tests.
		cmd:    exec.Command(os.Args[0], "-test.run=^$"),
		exited: make(chan struct{}),
	}
	p.cmd.Env = append(append(os.Environ(), env...), childVariable+"="+name)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	// A process the child started may have its output: that is no reason to wait for it.
	p.cmd.WaitDelay = time.Second
	// The child's lifeline: never written to, closed when the child has exited or this process has.
	if _, err := p.cmd.StdinPipe(); err != nil {
		tb.Fatalf("child %s: %v", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		tb.Fatalf("start child %s: %v", name, err)
	}
	go func() {
		defer close(p.exited)
		p.err = p.cmd.Wait()
	}()
	tb.Cleanup(p.finish)
	return p
}

func (p *Process) finish() {
	p.Kill()
	if p.tb.Failed() && p.errs.Len() > 0 {
		p.tb.Logf("child %s wrote to standard error:\n%s", p.name, p.errs.String())
	}
}

// Pid is the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the child as kill -9 does, without a last word, and waits until it is gone. Killing one
// that has exited does nothing.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has exited
	<-p.exited
}

// Terminate asks the child to stop (SIGTERM) and does not wait for it: see Wait.
func (p *Process) Terminate() {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Errorf("terminate child %s: %v", p.name, err)
	}
}

// Wait waits for the child to exit by itself and returns nil if it did with 0, else an
// *exec.ExitError. It fails the test if the child does not exit within [Patience].
func (p *Process) Wait() error {
	p.tb.Helper()
	select {
	case <-p.exited:
		return p.err
	case <-time.After(Patience):
		p.tb.Fatalf("child %s did not exit within %v", p.name, Patience)
		return nil
	}
}

// Lines is what the child has printed so far, complete lines only.
func (p *Process) Lines() []string { return p.out.lines() }

// WaitLine waits for the next line that starts with prefix and returns what follows the prefix. Lines
// before it are passed: the next call looks behind it. It fails the test if the child exits without
// such a line.
func (p *Process) WaitLine(prefix string) string {
	p.tb.Helper()
	for deadline := time.Now().Add(Patience); ; time.Sleep(pollFirst) {
		// Asked first: what an exited child had to say is all there.
		exited := p.hasExited()
		lines := p.Lines()
		for p.read < len(lines) {
			p.read++
			if rest, ok := strings.CutPrefix(lines[p.read-1], prefix); ok {
				return rest
			}
		}
		switch {
		case exited:
			p.tb.Fatalf("child %s exited (%v) without a line %q…", p.name, p.err, prefix)
		case time.Now().After(deadline):
			p.tb.Fatalf("not within %v: a line %q… from child %s, which printed %q",
				Patience, prefix, p.name, lines)
		}
	}
}

func (p *Process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// lineWriter keeps the lines written to it.
type lineWriter struct {
	mu   sync.Mutex
	done []string
	rest []byte // of a line that has not ended
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, b...)
	for {
		line, rest, ended := bytes.Cut(w.rest, []byte("\n"))
		if !ended {
			return len(b), nil
		}
		w.done, w.rest = append(w.done, string(line)), rest
	}
}

func (w *lineWriter) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.done)
}
