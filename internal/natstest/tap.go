package natstest

import (
	"bytes"
	"strconv"
	"sync"
)

// published is a message as a client sent it.
type published func(subject, reply string, payload []byte)

// tapSet hands what clients publish through a proxy to everyone who listens in.
type tapSet struct {
	mu    sync.Mutex
	sinks []published
}

func (s *tapSet) listen(sink published) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sinks = append(s.sinks, sink)
}

func (s *tapSet) publish(subject, reply string, payload []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sink := range s.sinks {
		sink(subject, reply, payload)
	}
}

// tap reads the client's side of one connection's NATS protocol as it passes, in pieces of any size.
// It follows from the first byte on: one that comes late could not tell a line from a payload.
type tap struct {
	set *tapSet

	line           []byte // of the protocol, until its end arrives
	subject, reply string
	header         int // bytes of the payload that are headers
	left           int // bytes of the payload, its line end included, that are still to come
	payload        []byte
}

func (t *tap) write(b []byte) {
	for len(b) > 0 {
		if t.left > 0 {
			n := min(t.left, len(b))
			t.payload, b, t.left = append(t.payload, b[:n]...), b[n:], t.left-n
			if t.left == 0 {
				t.set.publish(t.subject, t.reply, t.payload[t.header:len(t.payload)-len("\r\n")])
				t.payload = t.payload[:0]
			}
			continue
		}
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		t.line, b = append(t.line, line...), rest
		if ended {
			t.operation(bytes.Fields(t.line))
			t.line = t.line[:0]
		}
	}
}

// operation looks for the two that carry a message; the others have no payload to skip.
//
//	PUB <subject> [reply] <bytes>
//	HPUB <subject> [reply] <header bytes> <total bytes>
func (t *tap) operation(fields [][]byte) {
	sizes := 1
	switch {
	case len(fields) < 3:
		return
	case string(fields[0]) == "HPUB":
		sizes = 2
	case string(fields[0]) != "PUB":
		return
	}
	args, numbers := fields[1:len(fields)-sizes], fields[len(fields)-sizes:]
	total, err := strconv.Atoi(string(numbers[sizes-1]))
	if err != nil || len(args) == 0 {
		return // no client sends this; the server will say so
	}
	t.header = 0
	if sizes == 2 {
		t.header, _ = strconv.Atoi(string(numbers[0]))
	}
	t.subject, t.reply, t.left = string(args[0]), "", total+len("\r\n")
	if len(args) > 1 {
		t.reply = string(args[1])
	}
}

// Watch is the package's [Watch] on the bytes that clients send through the proxy, recorded as they
// are forwarded, before the server can answer. What takes another way, it does not see.
func (p *Proxy) Watch(stream, durable string) *Witness {
	return WatchThrough(stream, durable, p)
}

// WatchThrough is [Proxy.Watch] on several proxies together, those in front of a cluster.
func WatchThrough(stream, durable string, proxies ...*Proxy) *Witness {
	w := newWitness(stream, durable)
	for _, p := range proxies {
		p.taps.listen(w.record)
	}
	return w
}

// Pulls is [WatchPulls] on the bytes that clients send through the proxy.
func (p *Proxy) Pulls(stream, durable string) *PullWatch {
	w := newPullWatch(stream, durable)
	p.taps.listen(w.record)
	return w
}
