package jsource

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/reconciler/nats"
)

// Keys of a durable's metadata.
const (
	metaController = "jsource.controller"
	metaTopic      = "jsource.topic"
	metaDead       = "jsource.dead" // what the subjects of its dead letters begin with, unless that is the default
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

// deadPrefix is what the subjects of dead letters begin with, as the options say.
func deadPrefix(o *options) (string, error) {
	if len(o.dead.Subjects) == 0 {
		return defaultDeadPrefix, nil
	}
	prefix, ok := strings.CutSuffix(o.dead.Subjects[0], ".>")
	if !ok || strings.ContainsAny(prefix, "*>") {
		return "", fmt.Errorf("DeadLetters: subject %q should be a tree like %q, since each letter has a subject of its own",
			o.dead.Subjects[0], "orders.dead.>")
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
func rootOf(subject string) (string, bool) {
	for _, kind := range allKinds {
		if prefix, ok := strings.CutSuffix(subject, "."+string(kind)); ok && prefix != "" {
			return prefix + ".>", true
		}
	}
	return "", false
}
