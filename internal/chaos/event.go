//go:build unix

package chaos

import (
	"fmt"
	"strconv"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/reconciler/nats"
)

const (
	streamName  = "CHAOS"
	durableName = "chaos"
	deadName    = "CHAOS-dead"
	// groups are the requests that several keys share.
	groups = 4
)

// item is the resource that events tell of.
type item struct {
	Change uint64 `json:"change"` // which change of it this is
	Call   uint64 `json:"call"`   // which call published it
	Skip   bool   `json:"skip,omitempty"`
}

var topic = nats.NewTopic[string, item]("chaos.items")

// streamConfig is the stream of the topic.
func streamConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: streamName, Subjects: []string{topic.Subject()}, Storage: jetstream.FileStorage, Replicas: replicas, AllowDirect: true,
	}
}

func keyName(i int) string   { return fmt.Sprintf("k%d", i) }
func groupName(i int) string { return fmt.Sprintf("g%d", i) }

// skips reports whether the filters drop the event of a change.
func skips(change uint64) bool { return change%13 == 0 }

// owes are the requests that the event of a change is mapped to: none, its key, its key twice over, or its
// key and the group it is in.
func owes(key int, change uint64) []string {
	switch {
	case change%11 == 0:
		return nil
	case change%7 == 0:
		return []string{keyName(key), keyName(key)}
	case change%5 == 0:
		return []string{keyName(key), groupName(key % groups)}
	default:
		return []string{keyName(key)}
	}
}

// dies reports whether an attempt that sees this change as the newest ends with a terminal error, when the
// weather has such.
func dies(change uint64) bool { return change%17 == 0 }

// itemOf is the resource that an event tells of: as it is now, or as it was before it was deleted.
func itemOf(e *nats.Event[string, item]) item {
	switch {
	case e.New != nil:
		return *e.New
	case e.Old != nil:
		return *e.Old
	default:
		return item{}
	}
}

// callOf is the call that published a message, 0 if it does not say.
func callOf(subject string, header natsgo.Header, payload []byte) uint64 {
	if n, err := strconv.ParseUint(header.Get(callHeader), 10, 64); err == nil {
		return n
	}
	e, err := topic.Decode(subject, payload)
	if err != nil {
		return 0
	}
	return itemOf(&e).Call
}
