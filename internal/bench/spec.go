package bench

import (
	"errors"
	"fmt"
	"time"
)

// Spec says what one run is like.
type Spec struct {
	Keys          int           `json:"keys"`    // 0: one for each event
	Payload       int           `json:"payload"` // bytes of an event's JSON
	Workers       int           `json:"workers"`
	Reconcile     string        `json:"reconcile"`
	Rate          float64       `json:"rate"` // events per second, open loop; 0: as fast as it goes
	Events        int           `json:"events"`
	Storage       string        `json:"storage"`
	Replicas      int           `json:"replicas"`
	Publishers    int           `json:"publishers"`
	Fault         string        `json:"fault"`
	URL           string        `json:"url,omitempty"`
	Server        string        `json:"server"`
	MaxAckPending int           `json:"maxAckPending"` // 0: the contender's default
	AckWait       time.Duration `json:"ackWait"`       // nanoseconds; 0: the contender's default
}

// DefaultSpec is what a run is like if nobody says otherwise.
func DefaultSpec() Spec {
	return Spec{
		Keys: 10_000, Payload: 300, Workers: 4, Reconcile: "none", Events: 200_000, Storage: fileStorage, Replicas: 1,
		Publishers: 1, Fault: faultNone, Server: inProcess,
	}
}

// The faults.
const (
	faultNone    = "none"
	faultRestart = "restart"
	faultCut     = "cut"
)

const (
	inProcess  = "inprocess"
	ownProcess = "process"

	memoryStorage = "memory"
	fileStorage   = "file"

	// outage is how long a fault lasts.
	outage = 500 * time.Millisecond

	maxEvents = 20_000_000
)

// validate says what is wrong with the Spec, by the flag that it came from.
func (s *Spec) validate() error {
	_, err := parseWork(s.Reconcile)
	switch {
	case err != nil:
		return err
	case s.Keys < 0 || s.Keys > maxEvents:
		return fmt.Errorf("-keys %d: 0 (a key for each event) to %d", s.Keys, maxEvents)
	case s.Payload < minPayload || s.Payload > 900_000:
		return fmt.Errorf("-payload %d: %d to 900000 bytes", s.Payload, minPayload)
	case s.Workers < 1 || s.Workers > 10_000:
		return fmt.Errorf("-workers %d: 1 to 10000", s.Workers)
	case s.Rate < 0 || s.Rate > 10_000_000:
		return fmt.Errorf("-rate %v: 0 (as fast as it goes) to 10000000 events per second", s.Rate)
	case s.Events < 1 || s.Events > maxEvents:
		return fmt.Errorf("-events %d: 1 to %d", s.Events, maxEvents)
	case s.Storage != memoryStorage && s.Storage != fileStorage:
		return fmt.Errorf("-storage %q: %s or %s", s.Storage, memoryStorage, fileStorage)
	case s.Replicas != 1 && s.Replicas != 3:
		return fmt.Errorf("-replicas %d: 1 or 3", s.Replicas)
	case s.Publishers < 1 || s.Publishers > 1000:
		return fmt.Errorf("-publishers %d: 1 to 1000", s.Publishers)
	case s.Server != inProcess && s.Server != ownProcess:
		return fmt.Errorf("-server %q: %s or %s", s.Server, inProcess, ownProcess)
	case s.MaxAckPending < 0:
		return fmt.Errorf("-max-ack-pending %d: 0 (the default of what is measured) or more", s.MaxAckPending)
	case s.AckWait != 0 && (s.AckWait < 100*time.Millisecond || s.AckWait > time.Hour):
		return fmt.Errorf("-ack-wait %v: 0 (the default of what is measured), or 100ms to 1h", s.AckWait)
	}
	switch s.Fault {
	case faultNone, faultCut:
	case faultRestart:
		if s.URL != "" {
			return errors.New("-fault restart: the server of -nats is not ours to restart; try -fault cut")
		}
		if s.Storage == memoryStorage && s.Replicas == 1 {
			return errors.New("-fault restart: a stream in memory ends with its server; take -storage file or -replicas 3")
		}
	default:
		return fmt.Errorf("-fault %q: %s, %s or %s", s.Fault, faultNone, faultRestart, faultCut)
	}
	return nil
}

// keys is how many keys there are.
func (s *Spec) keys() int {
	if s.Keys == 0 {
		return s.Events
	}
	return s.Keys
}

// keyOf is the key of event n, by its number: chosen at random, and the same in every run.
func (s *Spec) keyOf(n int) int {
	if s.Keys == 0 {
		return n
	}
	x := uint64(n) + 0x9e3779b97f4a7c15 // splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(s.Keys))
}
