package main

import (
	"context"
	"sync"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler/nats"
)

// setting is a row of the database: a value that is to stand in the ConfigMap of the same name.
type setting struct {
	Value string `json:"value"`
}

// settingEvents carries the changes of settings. It is declared once, beside the store.
func settingEvents(prefix string) nats.Topic[string, setting] {
	return nats.NewTopic[string, setting](prefix + ".settings")
}

// database stands for a real one. Every commit is published.
type database struct {
	topic     nats.Topic[string, setting]
	publisher *jsource.Publisher

	mu   sync.Mutex
	rows map[string]setting
}

// Put commits a setting and publishes that it changed. The receipt says where in the stream.
func (d *database) Put(ctx context.Context, name, value string) (jsource.Receipt, error) {
	d.mu.Lock()
	old, existed := d.rows[name]
	row := setting{Value: value}
	d.rows[name] = row
	d.mu.Unlock()
	if !existed {
		return jsource.PublishCreated(ctx, d.publisher, d.topic, name, row)
	}
	return jsource.PublishUpdated(ctx, d.publisher, d.topic, name, old, row)
}

// Get returns a setting, and false if there is none.
func (d *database) Get(name string) (setting, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	row, ok := d.rows[name]
	return row, ok
}
