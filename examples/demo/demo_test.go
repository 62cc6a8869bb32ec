package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// asDemo makes the test binary the demo: with it, this program and the controllers it starts run with the
// race detector whenever the test does.
const asDemo = "JSOURCE_DEMO_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asDemo) != "" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// demoCommand is the demo with args. Its temporary files go to the folder that is returned.
func demoCommand(t *testing.T, args ...string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	dir = t.TempDir()
	cmd = exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asDemo+"=1", "TMPDIR="+dir, "TMP="+dir, "TEMP="+dir)
	return cmd, dir
}

// nothingLeft fails the test if there are files or processes that the demo should have removed or ended.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, f := range left {
		t.Errorf("left behind: %s", f.Name())
	}
	if runtime.GOOS != "linux" {
		return
	}
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Error(err)
	}
	for _, file := range environments {
		// One that cannot be read has ended, or is another user's.
		if env, err := os.ReadFile(file); err == nil && bytes.Contains(env, []byte("TMPDIR="+dir)) {
			t.Errorf("still running: process %s", filepath.Base(filepath.Dir(file)))
		}
	}
}

// cells returns what the table says of core NATS and of JetStream in the row that begins with label.
func cells(t *testing.T, table, label string) (core, jet string) {
	t.Helper()
	row := regexp.MustCompile(`(?m)^ *` + regexp.QuoteMeta(label) + `.*?  (\S+(?: m?s)?) {2,}(\S+(?: m?s)?)$`)
	m := row.FindStringSubmatch(table)
	if m == nil {
		t.Fatalf("no row %q", label)
	}
	return m[1], m[2]
}

func count(t *testing.T, cell string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(cell, ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checkTable checks what a run has printed, other than the numbers that depend on the machine.
func checkTable(t *testing.T, out string, events int) {
	t.Helper()
	if core, jet := cells(t, out, "events published"); count(t, core) != events || count(t, jet) != events {
		t.Errorf("published %s and %s, want %d", core, jet, events)
	}
	if _, settled := cells(t, out, "settled"); count(t, settled) != events {
		t.Errorf("settled %s, want %d", settled, events)
	}
	core, jet := cells(t, out, "LOST")
	if count(t, core) == 0 {
		t.Error("core NATS lost nothing")
	}
	if jet != "0" {
		t.Errorf("JetStream lost %s", jet)
	}
	for _, cause := range []string{"published while it was down", "published while its link"} {
		if core, _ := cells(t, out, cause); count(t, core) == 0 {
			t.Errorf("core NATS lost nothing %s", cause)
		}
	}
	_, core2 := cells(t, out, "reconciled")
	_, filtered := cells(t, out, "filtered")
	if count(t, core2)+count(t, filtered) != events {
		t.Errorf("%s reconciled and %s filtered of %d", core2, filtered, events)
	}
	if strings.Contains(out, "never") {
		t.Error("a controller did not converge")
	}
	if strings.Contains(out, escape) {
		t.Error("escape sequences where there is no terminal")
	}
}

// trigger keeps what is written to it, and does something when it first sees a word.
type trigger struct {
	seen bytes.Buffer // not embedded: io.Copy would call its ReadFrom, and not Write
	word string
	then func() error // nil once done
	err  error        // of what it did
}

func (w *trigger) Write(b []byte) (int, error) {
	n, err := w.seen.Write(b)
	if w.then != nil && bytes.Contains(w.seen.Bytes(), []byte(w.word)) {
		w.err, w.then = w.then(), nil
	}
	return n, err
}

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds, or more")
	}
	t.Parallel()
	cmd, dir := demoCommand(t, "-events", "1500", "-keys", "200", "-rate", "300", "-resync", "4s", "-seed", "7")
	// What a write to a connection of a killed controller raises, whenever one comes to pass.
	out := &trigger{word: "SIGKILL"}
	if runtime.GOOS != "windows" {
		out.then = func() error { return cmd.Process.Signal(syscall.SIGPIPE) }
	}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	t.Logf("%s", out.seen.String())
	if err := errors.Join(err, out.err); err != nil {
		t.Error(err)
	}
	checkTable(t, out.seen.String(), 1500)
	nothingLeft(t, dir)
}

func TestSomebodysServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds, or more")
	}
	t.Parallel()
	srv, err := startServer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	conn, err := connect(srv.ClientURL(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	theirs := jetstream.StreamConfig{Name: "theirs", Subjects: []string{"theirs.>"}}
	if _, err := js.CreateStream(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}

	cmd, dir := demoCommand(t, "-nats", srv.ClientURL(),
		"-events", "600", "-keys", "100", "-rate", "200", "-resync", "2s")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	checkTable(t, string(out), 600)
	nothingLeft(t, dir)
	streams := js.StreamNames(t.Context())
	for name := range streams.Name() {
		if name != "theirs" {
			t.Errorf("stream %s is left behind", name)
		}
	}
	if err := streams.Err(); err != nil {
		t.Error(err)
	}

	// A stream that would take in the demo's events, and keep them, is refused before any is published.
	if err := js.DeleteStream(t.Context(), "theirs"); err != nil {
		t.Fatal(err)
	}
	theirs.Subjects, theirs.NoAck = []string{">"}, true
	if _, err := js.CreateStream(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	cmd, dir = demoCommand(t, "-nats", srv.ClientURL())
	out, err = cmd.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != exitLost {
		t.Errorf("it ended with %v", err)
	}
	if !strings.Contains(string(out), `stream "theirs"`) {
		t.Errorf("it does not say why:\n%s", out)
	}
	nothingLeft(t, dir)
}

func TestInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be sent Ctrl-C")
	}
	for name, interrupt := range map[string]func(demo *exec.Cmd, stdout io.Closer) error{
		"Ctrl-C":             func(demo *exec.Cmd, _ io.Closer) error { return demo.Process.Signal(syscall.SIGINT) },
		"its reader is gone": func(_ *exec.Cmd, stdout io.Closer) error { return stdout.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, dir := demoCommand(t)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && !strings.Contains(lines.Text(), "published") {
				continue
			}
			if err := interrupt(cmd, stdout); err != nil {
				t.Error(err)
			}
			_, _ = io.Copy(io.Discard, stdout) // to the end, so that Wait may close it
			err = cmd.Wait()
			if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
				t.Errorf("it ended with %v", err)
			}
			nothingLeft(t, dir)
		})
	}
}

// The controllers are gone when the demo is, however that came about.
func TestControllersDoNotOutliveTheDemo(t *testing.T) {
	in, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	write.Close()
	done := make(chan error, 1)
	go func() { done <- runController(in, new(bytes.Buffer)) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a controller without orders succeeded")
		}
	case <-time.After(patience):
		t.Error("a controller without orders goes on")
	}
	c := &child{exited: make(chan struct{})}
	close(c.exited)
	if err := c.watch(context.Background()); err == nil {
		t.Error("a controller that ends by itself is not noticed")
	}
}
