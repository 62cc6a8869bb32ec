package nats_test

import (
	"errors"
	"testing"
)

func TestPublish(t *testing.T) {
	pub := &publisher{}
	check := func(err error, subject, data string) {
		t.Helper()
		must(t, err)
		if pub.subject != subject || string(pub.data) != data {
			t.Errorf("published %s on %s, want %s on %s", pub.data, pub.subject, data, subject)
		}
	}
	check(orders.PublishCreated(pub, "k", order{Total: 1}),
		"shop.orders.created", `{"kind":"created","key":"k","new":{"customer":"","total":1}}`)
	check(orders.PublishUpdated(pub, "k", order{Total: 1}, order{Total: 2}), "shop.orders.updated",
		`{"kind":"updated","key":"k","old":{"customer":"","total":1},"new":{"customer":"","total":2}}`)
	check(orders.PublishDeleted(pub, "k", order{Total: 2}),
		"shop.orders.deleted", `{"kind":"deleted","key":"k","old":{"customer":"","total":2}}`)
}

func TestPublishFails(t *testing.T) {
	err := orders.PublishCreated(&publisher{err: errRefused}, "k", order{})
	mustFail(t, err, "publishing", `"shop.orders.created"`)
	if !errors.Is(err, errRefused) {
		t.Errorf("%v does not wrap the publisher's error", err)
	}
	mustFail(t, orders.PublishCreated(nil, "k", order{}), `"shop.orders.created"`, "publisher is nil")
}
