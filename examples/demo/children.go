package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	roleFlag       = "-role"
	roleController = "controller"

	// patience bounds each wait for something that takes moments, also on a machine that is very busy.
	patience = 60 * time.Second
)

// child is a controller's process, as the demo sees it.
type child struct {
	name    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	started time.Time
	reports func(report, time.Time)
	ending  atomic.Bool   // it is to end
	exited  chan struct{} // closed when it is gone and has been read to the end
	err     error         // of its exit; valid once exited
	logged  lastLines
}

// startChild starts this program once more, as a controller. reports is called with what it says, from
// one goroutine.
func startChild(name string, o order, reports func(report, time.Time)) (*child, error) {
	fail := func(err error) (*child, error) {
		return nil, fmt.Errorf("starting the controller on %s: %w", name, err)
	}
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	c := &child{
		name: name, cmd: exec.Command(self, roleFlag, roleController),
		reports: reports, exited: make(chan struct{}),
	}
	c.cmd.Stderr = &c.logged
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return fail(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	c.started = time.Now()
	if err := c.cmd.Start(); err != nil {
		return fail(err)
	}
	go c.listen(stdout)
	line, err := json.Marshal(o)
	if err == nil {
		err = c.tell(string(line))
	}
	if err != nil {
		c.kill()
		return fail(err)
	}
	return c, nil
}

// listen passes on what the process reports, until it is gone.
func (c *child) listen(stdout io.Reader) {
	defer close(c.exited)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) == nil { // the line that a kill cuts off is no report
			c.reports(r, time.Now())
		}
	}
	c.err = c.cmd.Wait()
}

// tell writes one line to the process.
func (c *child) tell(line string) error {
	_, err := io.WriteString(c.stdin, line+"\n")
	return err
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (c *child) kill() {
	c.ending.Store(true)
	_ = c.cmd.Process.Kill() // fails only if it is gone already
	<-c.exited
}

// stop lets the process stop by itself, and kills it if that takes too long.
func (c *child) stop() error {
	c.ending.Store(true)
	c.stdin.Close()
	select {
	case <-c.exited:
	case <-time.After(15 * time.Second):
		c.kill()
		return fmt.Errorf("the controller on %s did not stop within 15 seconds and was killed", c.name)
	}
	if c.err != nil {
		return c.failure()
	}
	return nil
}

// watch returns an error when the process ends though nobody wants it to, and nil when ctx ends.
func (c *child) watch(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-c.exited:
	}
	if c.ending.Load() {
		return nil
	}
	return c.failure()
}

// failure says why the process has ended, with the end of its log.
func (c *child) failure() error {
	err := c.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("the controller on %s has ended: %w; the end of its log:\n%s",
		c.name, err, c.logged.String())
}

// wait waits until happened is closed, which the process makes happen.
func (c *child) wait(ctx context.Context, what string, happened <-chan struct{}) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-happened:
		return nil
	case <-c.exited:
		return c.failure()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("the controller on %s is not %s after %v; the end of its log:\n%s",
			c.name, what, patience, c.logged.String())
	}
}

// lastLines keeps the end of what is written to it.
type lastLines struct {
	mu    sync.Mutex
	lines []string
	rest  string // of a line that has not ended
}

func (l *lastLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(l.rest+string(b), "\n")
	l.rest = lines[len(lines)-1]
	l.lines = append(l.lines, lines[:len(lines)-1]...)
	if over := len(l.lines) - 20; over > 0 {
		l.lines = append([]string(nil), l.lines[over:]...)
	}
	return len(b), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(append(l.lines[:len(l.lines):len(l.lines)], l.rest), "\n")
}
