package natstest_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/levelstream/jsource/internal/natstest"
)

// children are what this test binary can be re-executed as.
var children = map[string]func(){
	"greeter": func() {
		fmt.Println("noise")
		fmt.Println("hello " + os.Getenv("GREETING_TO"))
		fmt.Println("waiting")
		select {}
	},
	"polite": func() {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		fmt.Println("ready")
		<-stop
		fmt.Println("bye")
	},
	"failing": func() { os.Exit(7) },
	// parent has a child of its own, which must not outlive it.
	"parent": func() {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "JSOURCE_TEST_CHILD=greeter")
		_, _ = cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != "waiting" {
		}
		fmt.Println("grandchild", cmd.Process.Pid)
		select {}
	},
}

func TestChildIsKilledWithoutALastWord(t *testing.T) {
	p := natstest.Child(t, "greeter", "GREETING_TO=world")
	if got := p.WaitLine("hello "); got != "world" {
		t.Errorf("greeted %q, want world", got)
	}
	p.WaitLine("waiting")
	p.Kill()
	p.Kill() // does nothing
	var exit *exec.ExitError
	if err := p.Wait(); !errors.As(err, &exit) {
		t.Fatalf("Wait returned %v, want an exit error", err)
	}
	if sig := exit.Sys().(syscall.WaitStatus).Signal(); sig != syscall.SIGKILL {
		t.Errorf("ended by %v, want SIGKILL", sig)
	}
	if got := strings.Join(p.Lines(), "|"); got != "noise|hello world|waiting" {
		t.Errorf("printed %s", got)
	}
}

func TestTerminatedChildStopsByItself(t *testing.T) {
	p := natstest.Child(t, "polite")
	p.WaitLine("ready")
	p.Terminate()
	p.WaitLine("bye")
	check(t, "wait", p.Wait())
	p.Terminate() // gone: does nothing
}

func TestExitCodeOfChild(t *testing.T) {
	var exit *exec.ExitError
	if err := natstest.Child(t, "failing").Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("Wait returned %v, want exit status 7", err)
	}
}

func TestWaitLineFailsWhenTheChildIsGone(t *testing.T) {
	said := failure(t, func(tb testing.TB) { natstest.Child(tb, "failing").WaitLine("ready") })
	if !strings.Contains(said, "exit status 7") || !strings.Contains(said, `"ready"`) {
		t.Errorf("failed with %q", said)
	}
}

func TestUnknownChildDoesNotRunTests(t *testing.T) {
	var exit *exec.ExitError
	if err := natstest.Child(t, "nobody").Wait(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("Wait returned %v, want exit status 2", err)
	}
}

func TestChildDoesNotOutliveItsParent(t *testing.T) {
	p := natstest.Child(t, "parent")
	var pid int
	if _, err := fmt.Sscan(p.WaitLine("grandchild "), &pid); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	natstest.Until(t, "the grandchild is gone", natstest.Patience, func() bool { return !alive(pid) })
}

// alive reports whether a process runs. One that exited and that nobody collects, since its parent
// is dead, does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
