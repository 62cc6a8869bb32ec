//go:build unix

package chaos

import (
	"bytes"
	"strconv"
)

// message is one message of the NATS protocol. Its parts are only valid during the call they are passed to.
type message struct {
	subject, reply  []byte
	header, payload []byte
}

// parser reads one direction of a connection, in pieces of any size, from its first byte on. Four
// operations carry a message:
//
//	PUB  <subject> [reply] <bytes>
//	HPUB <subject> [reply] <header bytes> <total bytes>
//	MSG  <subject> <sid> [reply] <bytes>
//	HMSG <subject> <sid> [reply] <header bytes> <total bytes>
type parser struct {
	rest []byte // of an operation that is not complete yet
}

func (p *parser) feed(b []byte, emit func(message)) {
	if len(p.rest) > 0 {
		p.rest = append(p.rest, b...)
		b = p.rest
	}
	for {
		n := operation(b, emit)
		if n == 0 {
			break
		}
		b = b[n:]
	}
	p.rest = append(p.rest[:0], b...)
}

// operation reads the first operation of b and returns its length, 0 if it is not complete.
func operation(b []byte, emit func(message)) int {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return 0
	}
	line := b[:end]
	name, _, _ := bytes.Cut(line, []byte(" "))
	var carries, headers, sid bool
	switch string(name) {
	case "PUB":
		carries = true
	case "HPUB":
		carries, headers = true, true
	case "MSG":
		carries, sid = true, true
	case "HMSG":
		carries, headers, sid = true, true, true
	}
	if !carries {
		return end + 1
	}
	fields := bytes.Fields(line)
	last := len(fields) - 1
	total, err := strconv.Atoi(string(fields[last]))
	if err != nil {
		return end + 1
	}
	split := 0
	if headers {
		last--
		split, _ = strconv.Atoi(string(fields[last]))
	}
	size := end + 1 + total + len("\r\n")
	if len(b) < size {
		return 0
	}
	m := message{subject: fields[1]}
	at := 2
	if sid {
		at++
	}
	if at < last {
		m.reply = fields[at]
	}
	body := b[end+1 : end+1+total]
	m.header, m.payload = body[:split], body[split:]
	emit(m)
	return size
}
