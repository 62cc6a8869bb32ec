package nats_test

import (
	"slices"
	"testing"

	"github.com/levelstream/jsource/reconciler/nats"
)

func TestFiltersPass(t *testing.T) {
	small, big := &order{Total: 1}, &order{Total: 100}
	type (
		filters = nats.Filters[string, order]
		event   = nats.Event[string, order]
	)
	created := func(o *order) event { return event{Kind: nats.Created, New: o} }
	updated := func(o, n *order) event { return event{Kind: nats.Updated, Old: o, New: n} }
	deleted := func(o *order) event { return event{Kind: nats.Deleted, Old: o} }
	isBig := func(o order) bool { return o.Total > 50 }
	shrinks := func(o, n order) bool { return o.Total > n.Total }

	for name, c := range map[string]struct {
		filters filters
		event   event
		want    bool
	}{
		"zero, created":    {filters{}, created(small), true},
		"zero, updated":    {filters{}, updated(small, small), true},
		"zero, deleted":    {filters{}, deleted(small), true},
		"unknown kind":     {filters{}, event{Kind: "renamed", New: small}, false},
		"create, no":       {filters{Create: isBig}, created(small), false},
		"create, yes":      {filters{Create: isBig}, created(big), true},
		"create, deleted":  {filters{Create: isBig}, deleted(small), true},
		"delete, no":       {filters{Delete: isBig}, deleted(small), false},
		"delete, yes":      {filters{Delete: isBig}, deleted(big), true},
		"update, no":       {filters{Update: shrinks}, updated(small, big), false},
		"update, yes":      {filters{Update: shrinks}, updated(big, small), true},
		"ignored":          {filters{Ignored: []nats.EventKind{nats.Created}}, created(small), false},
		"ignored, another": {filters{Ignored: []nats.EventKind{nats.Created}}, deleted(small), true},
		"ignored and passed by its own": {
			filters{Create: isBig, Ignored: []nats.EventKind{nats.Created}}, created(big), false,
		},
	} {
		if got := c.filters.Pass(c.event); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestFiltersKinds(t *testing.T) {
	c, u, d := nats.Created, nats.Updated, nats.Deleted
	for _, x := range []struct {
		ignored, want []nats.EventKind
		why           string
	}{
		{nil, []nats.EventKind{c, u, d}, ""},
		{[]nats.EventKind{u}, []nats.EventKind{c, d}, ""},
		{[]nats.EventKind{d, c, d}, []nats.EventKind{u}, ""},
		{[]nats.EventKind{u, d, c}, nil, "leaves no kind"},
		{[]nats.EventKind{"renamed"}, []nats.EventKind{c, u, d}, `Ignore("renamed")`},
	} {
		f := nats.Filters[string, order]{Ignored: x.ignored}
		if got := f.Kinds(); !slices.Equal(got, x.want) {
			t.Errorf("ignoring %q: got %q, want %q", x.ignored, got, x.want)
		}
		if err := f.Validate(); x.why != "" {
			mustFail(t, err, x.why)
		} else {
			must(t, err)
		}
	}
}
