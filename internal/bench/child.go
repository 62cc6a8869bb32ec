package bench

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

// childVariable makes this program a NATS server and nothing else.
const childVariable = "JSOURCE_BENCH_SERVER"

// serverReport is what a child process says: once it is ready, and when it is asked.
type serverReport struct {
	URL   string        `json:"url,omitempty"`
	Ports []int         `json:"ports,omitempty"`
	CPU   time.Duration `json:"cpu"`
	Err   string        `json:"err,omitempty"`
}

// ServeIfChild runs NATS servers and exits, if that is what this process was started for (-server process);
// otherwise it returns at once. Call it first thing in main and in TestMain.
func ServeIfChild() {
	if os.Getenv(childVariable) == "" {
		return
	}
	if err := serveChild(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveChild runs until in ends: the server does not outlive who started it.
func serveChild(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("nobody said what the server is to be like")
	}
	var o serverOptions
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return fmt.Errorf("reading what the server is to be like: %w", err)
	}
	answers := json.NewEncoder(out)
	e, err := startEmbedded(o)
	if err != nil {
		return answers.Encode(serverReport{Err: err.Error()})
	}
	defer e.close()
	report := serverReport{URL: e.url()}
	for _, opts := range e.options {
		report.Ports = append(report.Ports, opts.Port, opts.Cluster.Port)
	}
	if err := answers.Encode(report); err != nil {
		return err
	}
	for lines.Scan() { // each line is the same question
		if err := answers.Encode(serverReport{CPU: cpuTime()}); err != nil {
			return err
		}
	}
	return lines.Err()
}

// child is the servers in a process of their own.
type child struct {
	options serverOptions
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	at      string        // their URL
	before  time.Duration // CPU of the processes that were restarted
}

func startChild(o serverOptions) (*child, error) {
	c := &child{options: o}
	return c, c.start()
}

func (c *child) start() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("starting the NATS server in a process of its own: %w", err)
	}
	c.cmd = exec.Command(self)
	c.cmd.Env = append(os.Environ(), childVariable+"=1")
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("starting the NATS server in a process of its own: %w", err)
	}
	line, err := json.Marshal(c.options)
	if err != nil {
		return err
	}
	r, err := c.ask(string(line))
	if err != nil {
		return errors.Join(err, c.close())
	}
	c.at, c.options.Ports = r.URL, r.Ports
	return nil
}

// ask writes one line to the process and reads its answer.
func (c *child) ask(line string) (r serverReport, err error) {
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		return r, fmt.Errorf("talking to the process of the NATS server: %w", err)
	}
	if !c.out.Scan() {
		return r, errors.New("the process of the NATS server has ended")
	}
	if err := json.Unmarshal(c.out.Bytes(), &r); err != nil {
		return r, fmt.Errorf("talking to the process of the NATS server: %w", err)
	}
	if r.Err != "" {
		return r, errors.New(r.Err)
	}
	return r, nil
}

func (c *child) url() string { return c.at }

// restart kills the process as kill -9 does, and starts it again after an outage.
func (c *child) restart(ctx context.Context) error {
	used, err := c.cpu()
	if err != nil {
		return err
	}
	c.before = used
	_ = c.cmd.Process.Kill() // fails only if it is gone already
	_ = c.cmd.Wait()         // it was killed, which is what it says
	wait(ctx, outage)
	return c.start()
}

func (c *child) cpu() (time.Duration, error) {
	r, err := c.ask("")
	return c.before + r.CPU, err
}

// close lets the process end by itself, and kills it if that takes too long.
func (c *child) close() error {
	c.in.Close()
	late := time.AfterFunc(15*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("ending the process of the NATS server: %w", err)
	}
	return nil
}
