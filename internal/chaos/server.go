//go:build unix

package chaos

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/levelstream/jsource/internal/natstest"
)

// serverVariable holds the port and the store directory of a process that is to be a server.
const serverVariable = "JSOURCE_CHAOS_SERVER"

// serverProcess is a nats-server in a process of its own, so that it can be killed.
type serverProcess struct {
	tb   testing.TB
	dir  string
	port int // 0 before the first start
	cmd  *exec.Cmd
	log  *tail
	gone chan struct{} // closed when cmd has ended
}

// startServer starts a server and waits until it is ready.
func startServer(tb testing.TB, logs string) *serverProcess {
	tb.Helper()
	s := &serverProcess{tb: tb, dir: tb.TempDir(), log: new(tail)}
	if logs != "" {
		f, err := os.Create(filepath.Join(logs, "server.log"))
		if err != nil {
			tb.Fatal(err)
		}
		s.log.file = f
	}
	tb.Cleanup(s.log.close)
	tb.Cleanup(s.kill)
	s.start()
	return s
}

// runServer runs this process as a server if it was started as one, until it is told to stop; else it returns
// at once.
func runServer() {
	text, ok := os.LookupEnv(serverVariable)
	if !ok {
		return
	}
	signal.Ignore(os.Interrupt) // meant for the parent
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	var (
		port int
		dir  string
	)
	if _, err := fmt.Sscanf(text, "%d %s", &port, &dir); err != nil {
		fmt.Fprintln(os.Stderr, serverVariable, err)
		os.Exit(2)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the parent is gone
	}()
	Stand(os.Stderr, func(tb testing.TB) {
		s := natstest.Start(tb, natstest.WithConfig(func(o *server.Options) {
			o.StoreDir = dir
			if port != 0 {
				o.Port = port
			}
		}))
		fmt.Println("ready", s.Addr())
		<-stop
	})
	os.Exit(0)
}

func (s *serverProcess) addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

func (s *serverProcess) running() bool { return s.cmd != nil }

// start starts it, on the port it had, and returns when it is ready. What fails then fails the run.
func (s *serverProcess) start() {
	s.tb.Helper()
	if s.running() {
		return
	}
	exe, err := os.Executable()
	if err != nil {
		s.tb.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", serverVariable, s.port, s.dir))
	cmd.Stderr = s.log
	cmd.WaitDelay = time.Second
	if _, err := cmd.StdinPipe(); err != nil {
		s.tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.tb.Fatalf("starting a server: %v", err)
	}
	s.cmd, s.gone = cmd, make(chan struct{})
	ready := make(chan string, 1)
	go func() {
		defer close(s.gone)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if addr, ok := strings.CutPrefix(lines.Text(), "ready 127.0.0.1:"); ok {
				ready <- addr
			}
		}
		_ = cmd.Wait() // how it ended is for who ended it to know
	}()
	select {
	case port := <-ready:
		if s.port != 0 {
			return // the same; wires read it meanwhile
		}
		if _, err := fmt.Sscan(port, &s.port); err != nil {
			s.tb.Fatalf("the server's port %q: %v", port, err)
		}
	case <-s.gone:
		s.tb.Fatalf("the server did not start:\n%s", s.log)
	case <-time.After(natstest.Patience):
		s.tb.Fatalf("the server is not ready after %v:\n%s", natstest.Patience, s.log)
	}
}

// stop shuts it down in good order.
func (s *serverProcess) stop() { s.end(syscall.SIGTERM) }

// kill ends it as kill -9 does.
func (s *serverProcess) kill() { s.end(syscall.SIGKILL) }

// dump kills it such that it writes its goroutines' stacks to its log.
func (s *serverProcess) dump() { s.end(syscall.SIGQUIT) }

func (s *serverProcess) end(how syscall.Signal) {
	if !s.running() {
		return
	}
	_ = s.cmd.Process.Signal(how)
	select {
	case <-s.gone:
	case <-time.After(natstest.Patience):
		_ = s.cmd.Process.Kill()
		<-s.gone
	}
	s.cmd = nil
}
