package nats_test

import (
	"context"
	"strings"
	"testing"

	"github.com/levelstream/jsource/reconciler/nats"
)

func TestTopicSubjects(t *testing.T) {
	for got, want := range map[string]string{
		orders.Prefix():                "shop.orders",
		orders.Subject():               "shop.orders.>",
		orders.SubjectOf(nats.Created): "shop.orders.created",
		orders.SubjectOf(nats.Updated): "shop.orders.updated",
		orders.SubjectOf(nats.Deleted): "shop.orders.deleted",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if orders != nats.NewTopic[string, order]("shop.orders") {
		t.Error("topics with the same prefix are not equal")
	}
}

func TestTopicValidate(t *testing.T) {
	for _, prefix := range []string{"a", "a.b", "kargo.promotionrequests", "a-b_c.1", "größe.ü", "a.$b", "a$"} {
		if err := nats.NewTopic[string, order](prefix).Validate(); err != nil {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	for prefix, why := range map[string]string{
		"":             "empty",
		"a.*":          "wildcard",
		"a.>":          "wildcard",
		"a*b":          "wildcard",
		">":            "wildcard",
		"a b":          "whitespace",
		"a\t":          "whitespace",
		"a\u00a0b":     "whitespace",
		"a\r\nPUB x 0": "whitespace",
		"a\x00b":       "control character",
		"a\x7fb":       "control character",
		".a":           "empty token",
		"a.":           "ends with a dot",
		"a..b":         "empty token",
		".":            "empty token",
		"$JS.API":      "begins with $",
		"$":            "begins with $",
		"a\xff":        "UTF-8",
	} {
		topic := nats.NewTopic[string, order](prefix)
		mustFail(t, topic.Validate(), why)

		// Whatever uses the topic says the same.
		pub := &publisher{}
		mustFail(t, topic.PublishCreated(pub, "k", order{}), why)
		mustFail(t, topic.PublishUpdated(pub, "k", order{}, order{}), why)
		mustFail(t, topic.PublishDeleted(pub, "k", order{}), why)
		if pub.subject != "" {
			t.Errorf("%q: published on %q", prefix, pub.subject)
		}
		mustFail(t, nats.Subject(unusedConn{t: t}, topic).Start(context.Background(), nil), why)
	}
	var zero nats.Topic[string, order]
	if err := zero.Validate(); err == nil || !strings.Contains(err.Error(), "NewTopic") {
		t.Errorf("the zero Topic: %v", err)
	}
}
