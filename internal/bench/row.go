package bench

import "github.com/levelstream/jsource/reconciler/nats"

// Row is the resource whose changes are published.
type Row struct {
	Stage      string      `json:"stage"`
	Phase      string      `json:"phase"`
	Number     int64       `json:"number"` // firstNumber + the event's, so that all have as many digits
	Message    string      `json:"message,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"` // what makes a large event large
}

// Condition is one of a Row's.
type Condition struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Topic carries the events of a run. All of them are updates.
type Topic = nats.Topic[string, Row]

// Event is one of them.
type Event = nats.Event[string, Row]

const firstNumber = 1_000_000_000

// Number is the number of the event within its run.
func Number(e *Event) int { return int(e.New.Number - firstNumber) }
