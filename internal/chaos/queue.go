//go:build unix

package chaos

import "sync"

// bytesQueue holds bytes that were read and not written yet, however many.
type bytesQueue struct {
	mu     sync.Mutex
	some   sync.Cond
	data   []byte
	closed bool
}

func newBytesQueue() *bytesQueue {
	q := new(bytesQueue)
	q.some.L = &q.mu
	return q
}

func (q *bytesQueue) put(b []byte) {
	q.mu.Lock()
	q.data = append(q.data, b...)
	q.mu.Unlock()
	q.some.Signal()
}

// close says that no more bytes come.
func (q *bytesQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.some.Signal()
}

// wait returns when there are bytes, or false when there will be none.
func (q *bytesQueue) wait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.data) == 0 && !q.closed {
		q.some.Wait()
	}
	return len(q.data) > 0
}

// take returns all bytes there are; spare is what it returned last.
func (q *bytesQueue) take(spare []byte) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.data
	q.data = spare[:0]
	return b
}
