package main

import (
	"encoding/hex"
	"encoding/json"
	"iter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/levelstream/jsource/jsource"
)

// shown is a dead letter as JSON, one object a letter.
type shown struct {
	ID         string              `json:"id"`
	Stream     string              `json:"stream"`
	Sequence   uint64              `json:"sequence"`
	Subject    string              `json:"subject,omitempty"`
	Durable    string              `json:"durable"`
	Reason     string              `json:"reason"`
	Error      string              `json:"error,omitempty"`
	Request    string              `json:"request,omitempty"`
	Attempts   int                 `json:"attempts,omitempty"`
	Deliveries int                 `json:"deliveries"`
	Stored     time.Time           `json:"stored"`
	FirstSeen  time.Time           `json:"firstSeen"`
	Died       time.Time           `json:"died"`
	Superseded string              `json:"superseded,omitempty"`
	Reference  string              `json:"reference,omitempty"`
	Header     map[string][]string `json:"header,omitempty"`
	Payload    json.RawMessage     `json:"payload,omitempty"` // if it is JSON
	Data       []byte              `json:"data,omitempty"`    // if it is not, in base64
}

func (t *task) printLetters(letters iter.Seq2[*jsource.DeadLetter, error]) error {
	for l, err := range letters {
		if err != nil {
			return err
		}
		s := shown{
			ID: l.ID, Stream: l.Stream, Sequence: l.Sequence, Subject: l.Subject, Durable: l.Durable, Reason: l.Reason,
			Error: l.Error, Request: l.Request, Attempts: l.Attempts, Deliveries: l.Deliveries, Stored: l.Stored,
			FirstSeen: l.FirstSeen, Died: l.Died, Superseded: l.Superseded, Reference: l.Reference, Header: l.Header,
		}
		if json.Valid(l.Data) {
			s.Payload = l.Data
		} else {
			s.Data = l.Data
		}
		if err := t.printJSON(s); err != nil {
			return err
		}
	}
	return nil
}

// printable is data as a terminal can show it: text as it is, anything else in hex.
func printable(data []byte) string {
	if !utf8.Valid(data) {
		return hex.Dump(data)
	}
	for _, r := range string(data) {
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			return hex.Dump(data)
		}
	}
	return string(data)
}
