package jsource

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/reconciler/nats"
)

// Keys of a durable's metadata.
const (
	metaController = "jsource.controller"
	metaTopic      = "jsource.topic"
	metaDead       = "jsource.dead" // what the subjects of its dead letters begin with
)

// durableName is the default name of a controller's durable on a topic. The controller's part keeps "-" and
// "_", the topic's has neither of them except "_" for ".", so the last "-" separates the two and no two
// pairs share a name.
func durableName(controller, prefix string) string {
	return consumer.Escape(controller, "-_") + "-" + consumer.Escape(prefix, "")
}

// replicaName is the durable of one replica. An escaped name has no "@".
func replicaName(durable, id string) string { return durable + "@" + consumer.Escape(id, "-_") }

// deadName is the default name of the stream that keeps the dead letters of another.
func deadName(stream string) string { return stream + "-dead" }

// defaultDeadPrefix is what the subjects of dead letters begin with: the letter of a message is published
// to <prefix>.<stream>.<durable>.<sequence>.
const defaultDeadPrefix = "jsource.dead"

func deadTree(prefix, stream string) string { return prefix + "." + stream + ".>" }

func deadSubject(prefix, stream, durable string, seq uint64) string {
	return prefix + "." + stream + "." + durable + "." + strconv.FormatUint(seq, 10)
}

// deadPrefix is what the subjects of dead letters begin with, as the options say. It refuses a stream that
// cannot keep them.
func deadPrefix(o *options) (string, error) {
	cfg := &o.dead
	if cfg.Name != "" {
		if err := consumer.CheckName(cfg.Name); err != nil {
			return "", fmt.Errorf("DeadLetters: the stream's name %w", err)
		}
	}
	if cfg.Retention != jetstream.LimitsPolicy {
		return "", fmt.Errorf("DeadLetters: the stream's retention is %v, and should be %v, or letters nobody has read are gone",
			cfg.Retention, jetstream.LimitsPolicy)
	}
	if len(cfg.Subjects) == 0 {
		return defaultDeadPrefix, nil
	}
	prefix, ok := strings.CutSuffix(cfg.Subjects[0], ".>")
	if !ok || nats.NewTopic[string, string](prefix).Validate() != nil {
		return "", fmt.Errorf("DeadLetters: subject %q should be a tree like %q, since each letter has a subject of its own",
			cfg.Subjects[0], "orders.dead.>")
	}
	return prefix, nil
}

// subjects are the subjects of the kinds of a topic.
func subjects[K comparable, T any](topic nats.Topic[K, T], kinds []nats.EventKind) []string {
	list := make([]string, len(kinds))
	for i, kind := range kinds {
		list[i] = topic.SubjectOf(kind)
	}
	return list
}

// allKinds are the three kinds of event.
var allKinds = []nats.EventKind{nats.Created, nats.Updated, nats.Deleted}

// rootOf returns the subject tree of the topic that an event's subject belongs to.
func rootOf(subject string) (string, error) {
	for _, kind := range allKinds {
		if prefix, ok := strings.CutSuffix(subject, "."+string(kind)); ok {
			topic := nats.NewTopic[string, string](prefix)
			return topic.Subject(), topic.Validate()
		}
	}
	return "", errors.New("not a topic's subject; it should end in .created, .updated or .deleted")
}
