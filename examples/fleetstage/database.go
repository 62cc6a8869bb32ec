package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/levelstream/jsource/examples/fleetstage/kargoapi"
	"github.com/levelstream/jsource/reconciler/nats"
)

// promotionRequestRow is a promotion request as the database has it.
type promotionRequestRow struct {
	ID      uuid.UUID `json:"id"`
	Project string    `json:"project"` // a namespace
	Stage   string    `json:"stage"`
	Freight string    `json:"freight"`
	Phase   string    `json:"phase"`
}

// targetKey names a Target.
type targetKey struct {
	Project string `json:"project"`
	Name    string `json:"name"`
}

// targetRow is a Target as the database has it.
type targetRow struct {
	Labels map[string]string `json:"labels,omitempty"`
	Params json.RawMessage   `json:"params,omitempty"`
	Health string            `json:"health,omitempty"` // its status: no Stage cares
}

// labelsOrParamsChanged lets an update of a Target through that a Stage cares about.
func labelsOrParamsChanged(old, updated targetRow) bool {
	return !maps.Equal(old.Labels, updated.Labels) || !bytes.Equal(old.Params, updated.Params)
}

// Topics are declared once, beside the store. The prefix is a fixed one in real code; here each run has its own, so
// that it meets nobody on a server in use.
func requestTopic(prefix string) nats.Topic[uuid.UUID, promotionRequestRow] {
	return nats.NewTopic[uuid.UUID, promotionRequestRow](prefix + ".promotionrequests")
}

func targetTopic(prefix string) nats.Topic[targetKey, targetRow] {
	return nats.NewTopic[targetKey, targetRow](prefix + ".targets")
}

// database stands for a real one, and for the API server that commits to it and publishes each change.
type database struct {
	prefix    string // of the topics
	publisher nats.Publisher

	mu       sync.Mutex
	requests []promotionRequestRow // in the order in which they came
	targets  map[targetKey]targetRow
}

// CommitRequest stores a promotion request and publishes what has changed.
func (d *database) CommitRequest(row promotionRequestRow) error {
	topic := requestTopic(d.prefix)
	d.mu.Lock()
	i := slices.IndexFunc(d.requests, func(r promotionRequestRow) bool { return r.ID == row.ID })
	var old promotionRequestRow
	if i < 0 {
		d.requests = append(d.requests, row)
	} else {
		old, d.requests[i] = d.requests[i], row
	}
	d.mu.Unlock()
	if i < 0 {
		return topic.PublishCreated(d.publisher, row.ID, row)
	}
	return topic.PublishUpdated(d.publisher, row.ID, old, row)
}

// Requests returns the promotion requests of a Stage, the oldest first.
func (d *database) Requests(_ context.Context, project, stage string) ([]promotionRequestRow, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.requests), func(r promotionRequestRow) bool {
		return r.Project != project || r.Stage != stage
	}), nil
}

// OpenRequests returns the promotion requests that have not ended.
func (d *database) OpenRequests(context.Context) ([]promotionRequestRow, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.requests), func(r promotionRequestRow) bool { return kargoapi.Terminal(r.Phase) }), nil
}

// CommitTarget stores a Target and publishes what has changed.
func (d *database) CommitTarget(key targetKey, row targetRow) error {
	topic := targetTopic(d.prefix)
	d.mu.Lock()
	old, existed := d.targets[key]
	if d.targets == nil {
		d.targets = map[targetKey]targetRow{}
	}
	d.targets[key] = row
	d.mu.Unlock()
	if !existed {
		return topic.PublishCreated(d.publisher, key, row)
	}
	return topic.PublishUpdated(d.publisher, key, old, row)
}

// Targets returns what the Targets of a project that pass are, each as "<name> <params>", in order.
func (d *database) Targets(project string, pass func(labels map[string]string) bool) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var found []string
	for key, row := range d.targets {
		if key.Project == project && pass(row.Labels) {
			found = append(found, fmt.Sprintf("%s %s", key.Name, cmp.Or(string(row.Params), "{}")))
		}
	}
	slices.Sort(found)
	return found
}
