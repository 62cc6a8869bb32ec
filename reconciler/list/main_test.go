package list_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mustFail checks that err says all of the words.
func mustFail(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

// logged collects what is logged by default until the test ends.
func logged(t *testing.T) *logLines {
	lines := &logLines{}
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(lines, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return lines
}

type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// discard reads what is pushed until ctx ends, as a controller does.
func discard(ctx context.Context) chan<- string {
	out := make(chan string)
	go func() {
		for {
			select {
			case <-out:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
