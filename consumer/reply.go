package consumer

import (
	"errors"
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
