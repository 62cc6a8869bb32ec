package consumer

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// delivery is what a message's reply subject says of one hand-out.
type delivery struct {
	count uint64 // hand-outs so far, this one included
	seq   uint64 // stream sequence
	cseq  uint64 // consumer sequence
	time  int64  // when the message was stored, Unix nanoseconds
}

var errReply = errors.New("not the reply of a JetStream delivery")

// parseReply reads a reply subject, which has one of two forms:
//
//	$JS.ACK.<stream>.<consumer>.<count>.<stream seq>.<consumer seq>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<count>.<stream seq>.<consumer seq>.<time>.<pending>[.…]
func parseReply(reply string) (d delivery, err error) {
	rest, ok := strings.CutPrefix(reply, "$JS.ACK.")
	if !ok {
		return d, errReply
	}
	skip := 2
	if strings.Count(rest, ".") > 6 {
		skip = 4
	}
	for range skip {
		if _, rest, ok = strings.Cut(rest, "."); !ok {
			return d, errReply
		}
	}
	var numbers [4]uint64
	for i := range numbers {
		var token string
		if token, rest, ok = strings.Cut(rest, "."); !ok {
			return d, errReply
		}
		if numbers[i], err = strconv.ParseUint(token, 10, 63); err != nil {
			return d, errReply
		}
	}
	return delivery{count: numbers[0], seq: numbers[1], cseq: numbers[2], time: int64(numbers[3])}, nil
}

// setReply notes that d is the newest copy of m, and where it is settled. The reply is the longest part of a message
// that is held, and all of it but its last number is known anyway, unless it has the long form. The caller holds mu,
// or is the only one that knows m.
func (c *Consumer) setReply(m *Message, reply string, d delivery) {
	m.cseq, m.deliveries, m.replaced, m.odd = d.cseq, uint32(min(d.count, math.MaxUint32)), false, nil
	pending, err := strconv.ParseUint(reply[strings.LastIndexByte(reply, '.')+1:], 10, 32)
	m.pending = uint32(pending)
	var room [128]byte
	if err != nil || string(c.appendReply(room[:0], m)) != reply {
		odd := reply // a variable of its own: only this one is moved to the heap
		m.odd = &odd
	}
}

// reply is where m is settled. The caller holds mu.
func (c *Consumer) reply(m *Message) string {
	if m.odd != nil {
		return *m.odd
	}
	var room [128]byte // one with long names needs more, and gets it
	return string(c.appendReply(room[:0], m))
}

func (c *Consumer) appendReply(buf []byte, m *Message) []byte {
	buf = append(append(append(append(buf, "$JS.ACK."...), c.stream...), '.'), c.durable.Durable...)
	for _, n := range [...]uint64{uint64(m.deliveries), m.seq, m.cseq, uint64(m.stored), uint64(m.pending)} {
		buf = strconv.AppendUint(append(buf, '.'), n, 10)
	}
	return buf
}
