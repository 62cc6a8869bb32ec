package jsource_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// again is how long tests wait for what cannot be decoded.
const again = 20 * time.Millisecond

// What a stream cannot take is refused at once, with the reason, and the next event is stored.
func TestTooLargeToPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join()
	huge := widget{Color: strings.Repeat("x", 2<<20)}
	_, err := jsource.PublishCreated(t.Context(), w.pub, widgets, "huge", huge)
	expectError(t, err, "shop.widgets.created", "payload")
	w.publish("small")
	m.waitDone(t, "small")
	w.settled()
}

// Events that are no events, whatever is in them, become dead letters as they are; what stands before and behind
// them is reconciled, once.
func TestHostileEvents(t *testing.T) {
	t.Parallel()
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	bad := map[string]string{
		"deep arrays":       `{"kind":"created","key":"k","new":{"x":` + deep("[", "]", 100_000) + `}}`,
		"deep objects":      `{"kind":"created","key":"k","new":` + deep(`{"x":`, "}", 100_000) + `}`,
		"open arrays":       strings.Repeat("[", 900_000),
		"invalid UTF-8":     "{\"kind\":\"created\",\"key\":\"k\",\"new\":{}}\xff",
		"byte order mark":   "\ufeff" + `{"kind":"created","key":"k","new":{}}`,
		"UTF-16":            "{\x00\"\x00",
		"zeros":             strings.Repeat("\x00", 1000),
		"huge number":       `{"kind":"created","key":"k","new":{"version":1` + strings.Repeat("0", 100_000) + `}}`,
		"a status":          "none",
		"key of another":    `{"kind":"created","key":{"a":1},"new":{}}`,
		"duplicate objects": `{"kind":"created","kind":"deleted","key":"k","new":{}}`,
	}
	w := newWorld(t)
	m := w.join(withSource(func(s *widgetSource) { s.UndecodableDelay(again) }))
	w.publish("before")
	want := map[uint64]string{}
	for name, data := range bad {
		var headers []string
		if name == "a status" {
			// What the server says of a pull looks like this, except that it has no reply.
			headers = []string{"Status", "409", "Description", "Consumer Deleted"}
		}
		want[w.raw(nats.Created, data, headers...)] = name
	}
	w.publish("behind")
	m.waitDone(t, "before", "behind")
	letters := w.waitLetters(len(bad))
	w.settled()
	for _, letter := range letters {
		var seq uint64
		if _, err := fmt.Sscan(letter.Header.Get(jsource.DeadSequence), &seq); err != nil {
			t.Error(err)
		}
		if name := want[seq]; string(letter.Data) != bad[name] || letter.Header.Get(jsource.DeadReason) != "undecodable" {
			t.Errorf("%s: the letter differs, with the headers %v", name, letter.Header)
		}
	}
	m.expectOnce(t, "before", "behind")
}

// Invalid UTF-8 within a key is what encoding/json makes of it, and a key of any bytes is reconciled.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	keys := []string{
		"", " ", "a b", "a.b", "a.*", ">", "*", "../../etc/passwd", "line\nbreak", "null\x00byte", "\x1b[31mred",
		"\u202eright to left", "emoji 🚢", "NATS/1.0 503\r\n\r\n", "%s%d%n", `"quoted"`, strings.Repeat("long", 50_000),
	}
	w := newWorld(t)
	m := w.join(doing(unlessBad))
	w.publish(keys...)
	w.raw(nats.Created, "{\"kind\":\"created\",\"key\":\"half \xc3 rune\",\"new\":{}}")
	all := append(keys, "half \ufffd rune")
	m.waitDone(t, all...)
	w.settled()
	m.expectOnce(t, all...)
}

// Requests that are given up are named in a header: as text that a header, a log and a terminal can hold, whatever
// they consist of; and the payload has the key as it was.
func TestHostileRequestsInLetters(t *testing.T) {
	t.Parallel()
	keys := []string{
		"line\r\nNats-Msg-Id: forged", "null\x00byte", "\x1b[31mred", "\u202eright to left", strings.Repeat("long🚢", 10_000),
		" blanks ", "tab\tbed",
	}
	w := newWorld(t)
	w.join(doing(func(_ context.Context, key string) (reconciler.Result, error) {
		return reconciler.Result{}, reconciler.TerminalError(fmt.Errorf("it is about %s\r\nStatus: 503", key))
	}))
	w.publish(keys...)
	for _, letter := range w.waitLetters(len(keys)) {
		for _, name := range []string{jsource.DeadRequest, jsource.DeadError} {
			values := letter.Header[name]
			if len(values) != 1 || len(values[0]) > 1024 || !utf8.ValidString(values[0]) || strings.ContainsFunc(values[0], func(r rune) bool {
				return r < ' ' || r == 0x7f || r == '\u202e'
			}) {
				t.Errorf("header %s is %.100q", name, values)
			}
		}
		if letter.Header.Get("Status") != "" || strings.HasPrefix(letter.Header.Get("Nats-Msg-Id"), "forged") {
			t.Errorf("a forged header: %v", letter.Header)
		}
		event, err := widgets.Decode(widgets.SubjectOf(nats.Created), letter.Data)
		if err != nil || !slices.Contains(keys, event.Key) {
			t.Errorf("the letter holds %.100q: %v", letter.Data, err)
		}
	}
	w.settled()
}

// Headers that are huge, many, or mean something to somebody else: the event is reconciled, and a dead letter of
// one has them all, except those that would mean something in it.
func TestHostileHeaders(t *testing.T) {
	t.Parallel()
	headers := []string{
		"Huge", strings.Repeat("h", 20_000),
		"traceparent", "00-not-a-trace-at-all", "tracestate", strings.Repeat("a=b,", 1000),
		"baggage", strings.Repeat("k=v,", 1000), "Content-Type", "text/html",
		"Jsource-Dead-Reason", "forged", "jsource-dead-request", "forged", "JSOURCE-DEAD-SEQUENCE", "99",
		"Nats-Stream", "OTHER", "Nats-Sequence", "99", "nats-subject", "other", "Unicode", "ünïcode",
	}
	for i := range 1000 {
		headers = append(headers, fmt.Sprintf("Many-%d", i), "value")
	}
	w := newWorld(t)
	m := w.join(doing(unlessBad))
	w.raw(nats.Created, `{"kind":"created","key":"good","new":{}}`, headers...)
	w.raw(nats.Created, `{"kind":"created","key":"bad","new":{}}`, headers...)
	w.publish("behind")
	m.waitDone(t, "good", "behind")
	letter := w.waitLetters(1)[0]
	w.settled()
	for name, want := range map[string]string{
		jsource.DeadReason: "terminal", jsource.DeadRequest: "bad", jsource.DeadSequence: "2",
		"Huge": strings.Repeat("h", 20_000), "Many-999": "value", "Unicode": "ünïcode",
		jsource.DeadOriginal + "nats-subject": "other",
	} {
		if values := letter.Header[name]; len(values) != 1 || values[0] != want {
			t.Errorf("header %s is %.100q, want %.100q", name, values, want)
		}
	}
	if !bytes.Contains(letter.Data, []byte(`"bad"`)) {
		t.Errorf("the letter holds %q", letter.Data)
	}
}

// Headers may be so large that those of a dead letter do not fit beside them (a stream takes 64 KiB): it is a
// reference then, and nothing waits behind it.
func TestHeadersWithoutRoomForALetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(doing(unlessBad))
	w.raw(nats.Created, `{"kind":"created","key":"bad","new":{}}`, "Huge", strings.Repeat("h", 64<<10-50))
	w.publish("behind")
	m.waitDone(t, "behind")
	letter := w.waitLetters(1)[0]
	if letter.Header.Get("Huge") != "" || letter.Header.Get(jsource.DeadReference) == "" || letter.Header.Get(jsource.DeadRequest) != "bad" {
		t.Errorf("the letter has the headers %.500v", letter.Header)
	}
	w.settled()
}

// Names that a server does not take, or takes for something else, are refused by the part that was given them.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := func(src *widgetSource) error {
		return w.begin(watchingOnly(reconciler.Source[string](src))).failure()
	}
	long := strings.Repeat("n", 256)
	for _, name := range []string{"a b", "a.b", "a*", ">", "a\tb", "a\x00b", "a\x7fb", "../x", `a\b`, long} {
		expectError(t, start(jsource.Subject(w.srv.Conn(), widgets).Durable(name)), "durable name")
		expectError(t, start(jsource.Subject(w.srv.Conn(), widgets).Stream(jetstream.StreamConfig{Name: name})), "stream")
		expectError(t, start(jsource.Subject(w.srv.Conn(), widgets).DeadLetters(jetstream.StreamConfig{Name: name})), "DeadLetters")
	}
	for _, prefix := range []string{"", " ", "a b", "a..b", ".a", "a.", "a.*", "a.>", "$JS.API", "a\x00b", "\xff"} {
		topic := nats.NewTopic[string, widget](prefix)
		expectError(t, start(jsource.Subject(w.srv.Conn(), topic)), "prefix")
		_, err := jsource.PublishCreated(t.Context(), w.pub, topic, "key", widget{})
		expectError(t, err, "prefix")
	}
	expectError(t, start(jsource.Subject(w.srv.Conn(), nats.NewTopic[string, widget](strings.Repeat("t", 300)))), "longer than 255")
}

// Names of controllers and topics may be anything that is one: what a durable or a stream cannot be called is
// escaped.
func TestAwkwardNamesAreEscaped(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	for i, names := range [][2]string{
		{"two words", "shop.größe"},
		{"a/b:c", "shop.日本"},
		{"dots.and*stars>", "shop.quo\"ted"},
		{"tab\tbed", `shop.back\slash`},
		{"-", "shop._"},
	} {
		topic := nats.NewTopic[string, widget](names[1])
		pub := newPublisher(t, srv.Conn())
		key := fmt.Sprint("key", i)
		var l ledger
		c, err := reconciler.New[string](names[0]).Watch(jsource.Subject(srv.Conn(), topic)).Reconciler(&l)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		if _, err := jsource.PublishCreated(t.Context(), pub, topic, key, widget{}); err != nil {
			t.Fatalf("%q: %v", names, err)
		}
		l.waitDone(t, key)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%q: %v", names, err)
		}
	}
}
