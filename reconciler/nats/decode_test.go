package nats_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/levelstream/jsource/reconciler/nats"
)

func TestDecode(t *testing.T) {
	a, b := &order{Customer: "ann", Total: 1}, &order{Customer: "ann", Total: 2}
	for name, c := range map[string]struct {
		subject, data string
		want          nats.Event[string, order]
	}{
		"created": {
			"shop.orders.created", `{"kind":"created","key":"k","new":{"customer":"ann","total":1}}`,
			nats.Event[string, order]{Kind: nats.Created, Key: "k", New: a},
		},
		"updated": {
			"shop.orders.updated",
			`{"kind":"updated","key":"k","old":{"customer":"ann","total":1},"new":{"customer":"ann","total":2}}`,
			nats.Event[string, order]{Kind: nats.Updated, Key: "k", Old: a, New: b},
		},
		"deleted": {
			"shop.orders.deleted", `{"kind":"deleted","key":"k","old":{"customer":"ann","total":1},"new":null}`,
			nats.Event[string, order]{Kind: nats.Deleted, Key: "k", Old: a},
		},
		"another order, unknown fields and space": {
			"shop.orders.created",
			` {"more":[1], "new":{"total":1,"customer":"ann","x":0}, "key":"k", "kind":"created"} `,
			nats.Event[string, order]{Kind: nats.Created, Key: "k", New: a},
		},
		"an empty key": {
			"shop.orders.created", `{"kind":"created","key":"","new":{"customer":"ann","total":1}}`,
			nats.Event[string, order]{Kind: nats.Created, New: a},
		},
		"a subject with another prefix": { // of a dead letter, or from a mirror
			"elsewhere.created", `{"kind":"created","key":"k","new":{"customer":"ann","total":1}}`,
			nats.Event[string, order]{Kind: nats.Created, Key: "k", New: a},
		},
	} {
		got, err := orders.Decode(c.subject, []byte(c.data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	const created, updated, deleted = "shop.orders.created", "shop.orders.updated", "shop.orders.deleted"
	for name, c := range map[string]struct{ subject, data, why string }{
		"no data":            {created, ``, "not valid JSON"},
		"no JSON":            {created, `secret`, "not valid JSON"},
		"cut off":            {created, `{"kind":"created","key":"k","new":{"customer":"secret"`, "byte 54 of 54"},
		"trailing garbage":   {created, `{"kind":"created","key":"k","new":{}}secret`, "more than one JSON value"},
		"two events":         {created, `{"kind":"created","key":"k","new":{}}{}`, "more than one JSON value"},
		"null":               {created, `null`, `no "kind"`},
		"an array":           {created, `["secret"]`, "array"},
		"no kind":            {created, `{"key":"k","new":{}}`, `no "kind"`},
		"unknown kind":       {created, `{"kind":"secret","key":"k","new":{}}`, "kind in its JSON is unknown"},
		"other kind":         {created, `{"kind":"updated","key":"k","old":{},"new":{}}`, `the subject says "created"`},
		"kind's case":        {created, `{"kind":"Created","key":"k","new":{}}`, "unknown"},
		"kind not a string":  {created, `{"kind":1,"key":"k","new":{}}`, "number at kind"},
		"unknown subject":    {"shop.orders.renamed", `{"kind":"renamed","key":"k","new":{}}`, "last token"},
		"empty subject":      {"", `{"kind":"created","key":"k","new":{}}`, "last token"},
		"no key":             {created, `{"kind":"created","new":{}}`, `no "key"`},
		"null key":           {created, `{"kind":"created","key":null,"new":{}}`, `no "key"`},
		"key of other type":  {created, `{"kind":"created","key":4711,"new":{}}`, "number at key where Go has str"},
		"created, no new":    {created, `{"kind":"created","key":"k","old":{}}`, `no "new"`},
		"created, null new":  {created, `{"kind":"created","key":"k","new":null}`, `no "new"`},
		"updated, no old":    {updated, `{"kind":"updated","key":"k","new":{}}`, `no "old"`},
		"updated, no new":    {updated, `{"kind":"updated","key":"k","old":{}}`, `no "new"`},
		"deleted, no old":    {deleted, `{"kind":"deleted","key":"k","new":{}}`, `no "old"`},
		"another field type": {created, `{"kind":"created","key":"k","new":{"total":"secret"}}`, "string at new.total"},
		"too big a number":   {created, `{"kind":"created","key":"k","new":{"total":99999999999999999999}}`, "number at new.total"},
	} {
		event, err := orders.Decode(c.subject, []byte(c.data))
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		mustFail(t, err, `"`+c.subject+`"`, c.why)
		for _, payload := range []string{"secret", "4711", "99999", `\"k\"`} {
			if strings.Contains(err.Error(), payload) {
				t.Errorf("%s: the error quotes the payload: %v", name, err)
			}
		}
		if !reflect.DeepEqual(event, nats.Event[string, order]{}) {
			t.Errorf("%s: an event besides the error: %+v", name, event)
		}
	}
}

// picky has an UnmarshalJSON that does what its JSON says.
type picky string

func (p *picky) UnmarshalJSON(data []byte) error {
	switch what := strings.Trim(string(data), `"`); what {
	case "fail":
		return errors.New("secret")
	case "syntax":
		return json.Unmarshal([]byte("secret"), new(int))
	case "panic":
		panic("secret")
	case "index":
		_ = data[len(data):][0]
	default:
		*p = picky(what)
	}
	return nil
}

func TestDecodeWithUnmarshalersThatFail(t *testing.T) {
	type thing struct{ At picky }
	things := nats.NewTopic[picky, thing]("things")
	for data, why := range map[string]string{
		`{"kind":"created","key":"fail","new":{"At":"ok"}}`:   "in its key failed with a *errors.errorString",
		`{"kind":"created","key":"ok","new":{"At":"fail"}}`:   "in its new failed",
		`{"kind":"created","key":"ok","old":{"At":"fail"}}`:   "in its old failed",
		`{"kind":"created","key":"ok","new":{"At":"syntax"}}`: "in its new failed with a *json.SyntaxError",
		`{"kind":"created","key":"ok","new":{"At":"panic"}}`:  "panicked: a string",
		`{"kind":"created","key":"index","new":{"At":"ok"}}`:  "panicked: runtime error: index out of range",
	} {
		_, err := things.Decode("things.created", []byte(data))
		mustFail(t, err, "things.created", why)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error quotes the payload: %v", err)
		}
	}
	data := []byte(`{"kind":"created","key":"secret","new":"secret"}`)
	_, err := nats.NewTopic[uuid.UUID, string]("o").Decode("o.created", data)
	mustFail(t, err, "in its key failed")
	_, err = nats.NewTopic[string, time.Time]("o").Decode("o.created", data)
	mustFail(t, err, "in its new failed with a *time.ParseError")
}

func TestEncodeDecode(t *testing.T) {
	key := uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	topic := nats.NewTopic[uuid.UUID, order]("shop.orders")
	a, b := &order{Customer: "<ann> & \u2028", Labels: map[string]string{"a": "b"}}, &order{Total: math.MaxInt}
	for _, event := range []nats.Event[uuid.UUID, order]{
		{Kind: nats.Created, Key: key, New: a},
		{Kind: nats.Updated, Key: key, Old: a, New: b},
		{Kind: nats.Deleted, Key: key, Old: b},
	} {
		data, err := topic.Encode(event)
		must(t, err)
		plain, err := json.Marshal(event)
		must(t, err)
		if string(data) != string(plain) {
			t.Errorf("Encode: %s\njson.Marshal: %s", data, plain)
		}
		got, err := topic.Decode(topic.SubjectOf(event.Kind), data)
		must(t, err)
		if !reflect.DeepEqual(got, event) {
			t.Errorf("got %+v, want %+v", got, event)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	_, err := orders.Encode(nats.Event[string, order]{Kind: "renamed", Key: "k", New: &order{}})
	mustFail(t, err, "shop.orders.renamed", "kind is none of")
	_, err = orders.Encode(nats.Event[string, order]{Kind: nats.Updated, Key: "k", New: &order{}})
	mustFail(t, err, "shop.orders.updated", `no "old"`)
	_, err = orders.Encode(nats.Event[string, order]{Kind: nats.Created, Key: "k", Old: &order{}})
	mustFail(t, err, `no "new"`)

	pub := &publisher{}
	err = nats.NewTopic[string, map[string]int]("m").PublishCreated(pub, "k", nil)
	mustFail(t, err, "m.created", "its new", "null")
	err = nats.NewTopic[uuid.NullUUID, order]("m").PublishDeleted(pub, uuid.NullUUID{}, order{})
	mustFail(t, err, "m.deleted", "its key", "null")
	err = nats.NewTopic[string, float64]("m").PublishUpdated(pub, "k", math.NaN(), 1)
	mustFail(t, err, "m.updated", "its old", "NaN")
	if pub.subject != "" {
		t.Errorf("published on %q", pub.subject)
	}
}

func FuzzDecode(f *testing.F) {
	type thing struct {
		Name   string
		Size   int64
		Weight float64
		Labels map[string]string
		Parts  []thing
		Next   *thing
		Any    any
		Flag   bool
	}
	type key struct{ Project, Name string }
	topic := nats.NewTopic[key, thing]("things")
	for _, seed := range []string{
		`{"kind":"created","key":{"Project":"p","Name":"n"},"new":{"Name":"a","Size":1,"Labels":{"a":"b"}}}`,
		`{"kind":"updated","key":{},"old":{"Parts":[{"Flag":true}]},"new":{"Any":[1,{"x":null}],"Next":{}}}`,
		`{"kind":"deleted","key":{"Project":"p"},"old":{"Weight":1e-9},"new":null}`,
		`{"KIND":"created","key":{},"new":{},"new":{"Name":"\ud800"}}`,
		`{"kind":"created","key":{},"new":{}} x`, `null`, `[]`, ``,
	} {
		for _, kind := range []string{"created", "updated", "deleted"} {
			f.Add("things."+kind, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, subject string, data []byte) {
		before := string(data)
		event, err := topic.Decode(subject, data)
		if string(data) != before {
			t.Fatal("Decode changed the data")
		}
		var plain nats.Event[key, thing]
		plainErr := json.Unmarshal(data, &plain)
		if err != nil {
			return
		}
		if plainErr != nil {
			t.Fatalf("accepted %q, which encoding/json refuses: %v", data, plainErr)
		}
		if !reflect.DeepEqual(event, plain) {
			t.Fatalf("%q is %+v, with encoding/json %+v", data, event, plain)
		}
		again, err := topic.Encode(event)
		if err != nil {
			t.Fatalf("accepted %q but cannot encode it: %v", data, err)
		}
		got, err := topic.Decode(topic.SubjectOf(event.Kind), again)
		if err != nil {
			t.Fatalf("accepted %q but not %q: %v", data, again, err)
		}
		if !reflect.DeepEqual(got, event) {
			t.Fatalf("%q is %+v, but encoded again it is %+v", data, event, got)
		}
	})
}

// Unlike its time, what a decode allocates is the same on every machine: for the event of [BenchmarkDecode] two
// orders with a string and a map of two each, and the key.
func TestDecodeAllocations(t *testing.T) {
	const most = 15 // with the race detector; 12 without
	o := order{Customer: strings.Repeat("c", 40), Total: 1, Labels: map[string]string{"region": "eu", "tier": "gold"}}
	pub := &publisher{}
	must(t, orders.PublishUpdated(pub, "k", o, o))
	n := testing.AllocsPerRun(1000, func() {
		if _, err := orders.Decode(pub.subject, pub.data); err != nil {
			t.Fatal(err)
		}
	})
	if n > most {
		t.Errorf("%v allocations, want at most %d", n, most)
	}
}

func BenchmarkDecode(b *testing.B) {
	labels := map[string]string{"region": "eu", "tier": "gold"}
	o := order{Customer: strings.Repeat("c", 40), Total: 1, Labels: labels}
	pub := &publisher{}
	if err := orders.PublishUpdated(pub, "k", o, o); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(pub.data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := orders.Decode(pub.subject, pub.data); err != nil {
			b.Fatal(err)
		}
	}
}
