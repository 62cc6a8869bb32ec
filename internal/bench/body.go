package bench

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/levelstream/jsource/reconciler/nats"
)

// minPayload is the size of the smallest event there is, rounded up.
const minPayload = 200

// body makes events: encoded once, and changed in place for each of them, so that what is measured is not
// the load.
type body struct {
	template []byte
	keys     []int // where the key's digits are
	numbers  []int // where the number is
}

const (
	keyPrefix  = "stage-"
	digits     = 10
	sampleKey  = 4_242_424_242
	sampleWhat = 1_313_131_313
)

// newBody returns the events of a topic, size bytes of JSON each.
func newBody(topic Topic, size int) (*body, error) {
	stage := keyPrefix + strconv.Itoa(sampleKey)
	event := Event{
		Kind: nats.Updated, Key: stage,
		Old: &Row{Stage: stage, Phase: "Running", Number: sampleWhat},
		New: &Row{Stage: stage, Phase: "Succeeded", Number: sampleWhat},
	}
	data, err := topic.Encode(event)
	if err != nil {
		return nil, err
	}
	// Conditions, in turn on the old and the new row, and then so much text that the size is right.
	condition := Condition{Type: "Healthy", Reason: "AllReplicasAvailable", Message: strings.Repeat("all is well. ", 5)}
	each := len(`{"type":"","reason":"","message":""},`) + len(condition.Type) + len(condition.Reason) + len(condition.Message)
	for left, n := size-len(data)-100, 0; left > each; left, n = left-each, n+1 {
		row := event.New
		if n%2 == 1 {
			row = event.Old
		}
		row.Conditions = append(row.Conditions, condition)
	}
	if data, err = topic.Encode(event); err != nil {
		return nil, err
	}
	if left := size - len(data) - len(`"message":"",`); left > 0 {
		event.New.Message = strings.Repeat("m", left)
		if data, err = topic.Encode(event); err != nil {
			return nil, err
		}
	}
	b := &body{
		template: data,
		keys:     indexes(data, strconv.Itoa(sampleKey)),
		numbers:  indexes(data, strconv.Itoa(sampleWhat)),
	}
	if len(b.keys) != 3 || len(b.numbers) != 2 {
		return nil, errors.New("an event does not look as it should: this is a bug of the benchmark")
	}
	return b, nil
}

func indexes(data []byte, what string) []int {
	var all []int
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte(what))
		if i < 0 {
			return all
		}
		all = append(all, at+i)
		at += i + len(what)
	}
}

// write makes buf, which is empty or was written before, event n of key.
func (b *body) write(buf []byte, n, key int) []byte {
	if len(buf) != len(b.template) {
		buf = bytes.Clone(b.template)
	}
	for _, at := range b.keys {
		putDigits(buf[at:at+digits], key)
	}
	for _, at := range b.numbers {
		putDigits(buf[at:at+digits], firstNumber+n)
	}
	return buf
}

func putDigits(to []byte, n int) {
	for i := len(to) - 1; i >= 0; i-- {
		to[i] = '0' + byte(n%10)
		n /= 10
	}
}

// keyIndex is the number of a key.
func keyIndex(key string) (int, error) {
	text, ok := strings.CutPrefix(key, keyPrefix)
	n, err := strconv.Atoi(text)
	if !ok || err != nil {
		return 0, fmt.Errorf("key %q is none of the benchmark's", key)
	}
	return n, nil
}
