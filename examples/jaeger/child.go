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
	"time"
)

// child is the controller's process.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	ready  chan struct{} // closed when its source runs
	exited chan struct{} // closed when it is gone
	err    error         // of its exit; valid once exited
	log    *tail
}

// startChild starts this program once more, as the controller, and waits until its source runs.
func startChild(ctx context.Context, told instructions) (*child, error) {
	fail := func(err error) (*child, error) { return nil, fmt.Errorf("starting the controller: %w", err) }
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	c := &child{
		cmd: exec.Command(self, roleFlag, roleController),
		log: new(tail), ready: make(chan struct{}), exited: make(chan struct{}),
	}
	c.cmd.Stderr = c.log
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return fail(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	if err := c.cmd.Start(); err != nil {
		return fail(err)
	}
	go c.listen(stdout)
	if err := json.NewEncoder(c.stdin).Encode(told); err != nil {
		c.kill()
		return fail(err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.ready:
		return c, nil
	case <-c.exited:
		return fail(c.failure())
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = fmt.Errorf("its source does not run after %v; the end of its log:\n%s", patience, c.log)
	}
	c.kill()
	return fail(err)
}

// listen reads what the process says, until it is gone.
func (c *child) listen(stdout io.Reader) {
	defer close(c.exited)
	lines := bufio.NewScanner(stdout)
	for ready := false; lines.Scan(); {
		if lines.Text() == readyLine && !ready {
			ready = true
			close(c.ready)
		}
	}
	c.err = c.cmd.Wait()
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // fails only if it is gone already
	<-c.exited
}

// stop lets the process stop by itself, and kills it if that takes too long.
func (c *child) stop() error {
	c.stdin.Close()
	select {
	case <-c.exited:
	case <-time.After(60 * time.Second):
		c.kill()
		return errors.New("the controller did not stop within a minute and was killed")
	}
	if c.err != nil {
		return c.failure()
	}
	return nil
}

// failure says why the process has ended.
func (c *child) failure() error {
	err := c.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("the controller has ended: %w; the end of its log:\n%s", err, c.log)
}
