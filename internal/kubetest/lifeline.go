package kubetest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// lifeline is a shell that kills the API server's processes when this one is gone without having stopped them: after
// a panic or a timeout of the tests. It reads its standard input, which ends then.
type lifeline struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// newLifeline is for the children of this process that are called so. Where there is no /proc it does nothing.
func newLifeline(names ...string) (*lifeline, error) {
	pids := children(names)
	if len(pids) == 0 {
		return nil, nil
	}
	args := append([]string{"-c", `cat >/dev/null; kill -9 "$@"`, "lifeline"}, pids...)
	l := &lifeline{cmd: exec.Command("sh", args...)}
	var err error
	if l.stdin, err = l.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the API server's lifeline: %w", err)
	}
	return l, nil
}

// cut ends the lifeline: those it was for may live, or have ended.
func (l *lifeline) cut() {
	if l == nil {
		return
	}
	_ = l.cmd.Process.Kill() // before its input ends
	_ = l.cmd.Wait()
	_ = l.stdin.Close()
}

// children are the process ids of this process's children that are called one of names.
func children(names []string) []string {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var pids []string
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// "<pid> (<name>) <state> <parent> …", the name cut to 15 characters.
		head, rest, _ := bytes.Cut(stat, []byte(") "))
		pid, name, _ := strings.Cut(string(head), " (")
		fields := strings.Fields(string(rest))
		if len(fields) < 2 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, want := range names {
			if name == want[:min(len(want), 15)] {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
