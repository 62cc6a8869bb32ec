package main

import (
	"bytes"
	"sync"
)

// tail keeps the end of what is written to it: of a log, for an error message.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailSize is how many bytes it keeps, at most twice as many.
const tailSize = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - tailSize; over > tailSize {
		t.text = bytes.Clone(t.text[over:])
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text[max(0, len(t.text)-tailSize):]))
}
