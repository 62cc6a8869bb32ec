//go:build unix

package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
)

// Stand calls run with a testing.TB outside of any test, for what is built on one, and then the cleanups.
// It reports whether nothing failed; what failed is written to out.
func Stand(out io.Writer, run func(tb testing.TB)) bool {
	s := &stand{out: out}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.clean()
		run(s)
	}()
	<-done
	return !s.Failed()
}

// stand is a testing.TB. It has what package natstest uses; the rest would panic.
type stand struct {
	testing.TB
	out io.Writer

	mu       sync.Mutex
	failed   bool
	cleanups []func()
}

func (s *stand) clean() {
	for {
		s.mu.Lock()
		n := len(s.cleanups)
		if n == 0 {
			s.mu.Unlock()
			return
		}
		last := s.cleanups[n-1]
		s.cleanups = s.cleanups[:n-1]
		s.mu.Unlock()
		last()
	}
}

func (s *stand) Helper()                           {}
func (s *stand) Name() string                      { return "chaos" }
func (s *stand) Context() context.Context          { return context.Background() }
func (s *stand) Log(args ...any)                   { fmt.Fprintln(s.out, args...) }
func (s *stand) Logf(format string, args ...any)   { fmt.Fprintf(s.out, format+"\n", args...) }
func (s *stand) Error(args ...any)                 { s.Log(args...); s.Fail() }
func (s *stand) Errorf(format string, args ...any) { s.Logf(format, args...); s.Fail() }
func (s *stand) Fatal(args ...any)                 { s.Log(args...); s.FailNow() }
func (s *stand) Fatalf(format string, args ...any) { s.Logf(format, args...); s.FailNow() }

func (s *stand) Fail() {
	s.mu.Lock()
	s.failed = true
	s.mu.Unlock()
}

func (s *stand) FailNow() {
	s.Fail()
	runtime.Goexit()
}

func (s *stand) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

func (s *stand) Cleanup(f func()) {
	s.mu.Lock()
	s.cleanups = append(s.cleanups, f)
	s.mu.Unlock()
}

func (s *stand) TempDir() string {
	dir, err := os.MkdirTemp("", "jsource-chaos-")
	if err != nil {
		s.Fatalf("a directory: %v", err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
