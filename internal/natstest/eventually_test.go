package natstest_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/natstest"
)

// failing stands in for a test that is expected to fail.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure runs fn and returns what it failed with.
func failure(t *testing.T, fn func(tb testing.TB)) string {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(f)
	}()
	<-done
	if f.said == "" {
		t.Error("did not fail")
	}
	return f.said
}

func TestEventuallyTriesUntilItHolds(t *testing.T) {
	tries := 0
	natstest.Eventually(t, "third time lucky", natstest.Patience, func() error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if tries != 3 {
		t.Errorf("tried %d times, want 3", tries)
	}
}

func TestEventuallyFailsWithConditionAndLastError(t *testing.T) {
	tries := 0
	said := failure(t, func(tb testing.TB) {
		natstest.Eventually(tb, "pigs fly", 10*time.Millisecond, func() error {
			tries++
			return fmt.Errorf("try %d", tries)
		})
	})
	if want := fmt.Sprintf("pigs fly: try %d", tries); !strings.Contains(said, want) || tries < 2 {
		t.Errorf("failed with %q after %d tries, want %q in it", said, tries, want)
	}
	said = failure(t, func(tb testing.TB) {
		natstest.Until(tb, "pigs swim", time.Millisecond, func() bool { return false })
	})
	if !strings.Contains(said, "pigs swim") {
		t.Errorf("failed with %q", said)
	}
}
