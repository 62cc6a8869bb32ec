package jsource_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// dying is a Reconciler for which every request is hopeless.
func dying(context.Context, string) (reconciler.Result, error) {
	return reconciler.Result{}, reconciler.TerminalError(errTest)
}

// S8, case 17: on the wire, first the dead letter is stored, then its stream confirms that, and only then the
// original gets its verdict.
func TestLetterIsConfirmedBeforeTheVerdict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.srv.Conn()
	wire := make(chan *natsgo.Msg, 10_000)
	// On one connection the server delivers in the order in which it was sent.
	for _, subject := range []string{"jsource.dead.>", "_INBOX.>", "$JS.ACK.>"} {
		if _, err := conn.ChanSubscribe(subject, wire); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	w.join(doing(dying))
	r := w.publish("a")[0]
	w.waitSaid(r.Sequence, "term of delivery 1")
	var order []string
	inbox := "none"
	for !slices.Contains(order, "verdict") {
		msg := <-wire
		switch {
		case strings.HasPrefix(msg.Subject, "jsource.dead."):
			order, inbox = append(order, "letter"), msg.Reply
		case msg.Subject == inbox:
			order = append(order, "confirmed")
		case strings.HasPrefix(string(msg.Data), "+TERM"):
			order = append(order, "verdict")
		}
	}
	if !slices.Equal(order, []string{"letter", "confirmed", "verdict"}) {
		t.Errorf("on the wire: %v", order)
	}
}

// S8: the letter's subject, and all that it says.
func TestLetterSaysWhatHappened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := time.Now()
	w.join(doing(dying))
	w.raw(nats.Created, `{"kind":"created","key":"a","new":{"version":7}}`,
		"Nats-Msg-Id", "change-1", "Tenant", "acme", "Tenant", "umbrella", "traceparent", "00-1",
		"Jsource-Dead-Reason", "old")
	letter := w.waitLetters(1)[0]
	if want := "jsource.dead.shop_widgets.keeper-shop_widgets.1"; letter.Subject != want {
		t.Errorf("its subject is %s, want %s", letter.Subject, want)
	}
	// The payload was dropped when the message was mapped: it comes from the stream.
	if got := string(letter.Data); got != `{"kind":"created","key":"a","new":{"version":7}}` {
		t.Errorf("it holds %q", got)
	}
	stored, err := w.js.Stream(t.Context(), widgetStream)
	if err != nil {
		t.Fatal(err)
	}
	original, err := stored.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	want := natsgo.Header{
		"Jsource-Dead-Subject":         {"shop.widgets.created"},
		"Jsource-Dead-Stream":          {widgetStream},
		"Jsource-Dead-Sequence":        {"1"},
		"Jsource-Dead-Durable":         {widgetDurable},
		"Jsource-Dead-Deliveries":      {"1"},
		"Jsource-Dead-Reason":          {"terminal"},
		"Jsource-Dead-Error":           {"terminal error: out of stock"},
		"Jsource-Dead-Request":         {"a"},
		"Jsource-Dead-Attempts":        {"1"},
		"Jsource-Dead-Stored":          {original.Time.UTC().Format(time.RFC3339Nano)},
		"Jsource-Original-Nats-Msg-Id": {"change-1"},
		"Tenant":                       {"acme", "umbrella"},
		"traceparent":                  {"00-1"},
	}
	for name, values := range letter.Header {
		switch name {
		case "Jsource-Dead-First-Seen", "Jsource-Dead-Time":
			at, err := time.Parse(time.RFC3339Nano, values[0])
			if err != nil || at.Before(before) || at.After(time.Now()) {
				t.Errorf("header %s is %v: %v", name, values, err)
			}
			continue
		case "Nats-Msg-Id", "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending":
			continue // the letter's own
		}
		if !slices.Equal(values, want[name]) {
			t.Errorf("header %s is %q, want %q", name, values, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("it lacks %v", want)
	}
}

// S8: the stream for dead letters is made at Start, with limits.
func TestDeadLetterStreamIsMadeAtStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join()
	s, err := w.js.Stream(t.Context(), "shop_widgets-dead")
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	if cfg.MaxAge != 30*24*time.Hour || cfg.MaxBytes != 1<<30 || cfg.Discard != jetstream.DiscardOld ||
		cfg.Storage != jetstream.FileStorage || !slices.Equal(cfg.Subjects, []string{"jsource.dead.shop_widgets.>"}) {
		t.Errorf("it is %+v", cfg)
	}
}

// S8: while a dead letter cannot be stored its original stays, the source is unhealthy and others are served;
// once it can be, all is well again.
func TestOriginalStaysWhileItsLetterCannotBeStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lines := w.keepLog()
	m := w.join(workers(2), doing(func(ctx context.Context, req string) (reconciler.Result, error) {
		if strings.HasPrefix(req, "bad") {
			return dying(ctx, req)
		}
		return reconciler.Result{}, nil
	}), withSource(func(s *widgetSource) {
		s.DeadLetters(jetstream.StreamConfig{Name: "FULL", MaxMsgs: 1, Discard: jetstream.DiscardNew})
	}))
	bad := w.publish("bad1")
	w.waitSaid(bad[0].Sequence, "term of delivery 1")
	bad = append(bad, w.publish("bad2", "bad3")...)
	natstest.Eventually(t, "the source is unhealthy", natstest.Patience, func() error {
		if m.source.Healthy() == nil {
			return errors.New("it is healthy")
		}
		return nil
	})
	expectError(t, m.source.Healthy(), widgetDurable, "FULL", "maximum messages exceeded")
	lines.waitFor(t, "a dead letter cannot be stored", "sequence=2", "bad2", "maximum messages exceeded")
	lines.waitFor(t, "a dead letter cannot be stored", "sequence=3")
	good := w.publish("good")[0]
	w.waitSaid(good.Sequence, "ack of delivery 1")
	w.waitSaid(bad[0].Sequence, "term of delivery 1")
	w.expectSaid(bad[1].Sequence, "")
	w.expectSaid(bad[2].Sequence, "")
	w.left(2, 0)

	full, err := w.js.Stream(t.Context(), "FULL")
	if err != nil {
		t.Fatal(err)
	}
	cfg := full.CachedInfo().Config
	cfg.MaxMsgs = -1
	if _, err := w.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	w.settled()
	w.expectSaid(bad[1].Sequence, "term of delivery 1")
	w.expectSaid(bad[2].Sequence, "term of delivery 1")
	if n := len(w.letters("FULL")); n != 3 {
		t.Errorf("%d letters, want 3", n)
	}
	if err := m.source.Healthy(); err != nil {
		t.Errorf("still unhealthy: %v", err)
	}
}

// S8: a letter that alone cannot be stored does not hold up others, and the source stays unhealthy meanwhile.
func TestLetterThatCannotBeStoredHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join(doing(func(_ context.Context, req string) (reconciler.Result, error) {
		err := errTest
		if req == "long" {
			err = errors.New(strings.Repeat("out of stock ", 100))
		}
		return reconciler.Result{}, reconciler.TerminalError(err)
	}), withSource(func(s *widgetSource) {
		s.DeadLetters(jetstream.StreamConfig{Name: "NARROW", MaxMsgSize: 1000})
	}))
	r := w.publish("long", "a", "b")
	w.waitSaid(r[1].Sequence, "term of delivery 1")
	w.waitSaid(r[2].Sequence, "term of delivery 1")
	w.expectSaid(r[0].Sequence, "")
	expectError(t, m.source.Healthy(), "sequence 1 of stream", "message size exceeds maximum allowed")

	// A stop does not wait for it, though its grace period is 20 seconds.
	began := m.stop()
	m.wait()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
	w.expectSaid(r[0].Sequence, "nak of delivery 1")
}

// S8: a stream for dead letters that is deleted is made again, before the verdict.
func TestDeadLetterStreamIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(doing(dying))
	first := w.publish("a")[0]
	w.waitSaid(first.Sequence, "term of delivery 1")
	if err := w.js.DeleteStream(t.Context(), "shop_widgets-dead"); err != nil {
		t.Fatal(err)
	}
	second := w.publish("b")[0]
	w.waitSaid(second.Sequence, "term of delivery 1")
	letter := w.waitLetters(1)[0]
	if letter.Header.Get(jsource.DeadRequest) != "b" {
		t.Errorf("its headers are %v", letter.Header)
	}
	verdict := w.witness.Verdicts(second.Sequence)[0]
	if !letter.Time.Before(verdict.At) {
		t.Errorf("stored at %v, the verdict was given at %v", letter.Time, verdict.At)
	}
}

// S8: a letter that is too large with its headers is a reference: for the server, and for its stream.
func TestLetterTooLargeIsAReference(t *testing.T) {
	t.Parallel()
	payload := `{"kind":"created","key":"a","new":{"color":"` + strings.Repeat("r", 3900) + `"}}`
	for name, tc := range map[string]struct {
		server natstest.Option
		dead   jetstream.StreamConfig
	}{
		"for the server": {
			server: natstest.WithConfig(func(o *server.Options) { o.MaxPayload = 4096 }),
			dead:   jetstream.StreamConfig{Name: "DEAD"},
		},
		"for its stream": {
			server: natstest.WithConfig(func(*server.Options) {}),
			dead:   jetstream.StreamConfig{Name: "DEAD", MaxMsgSize: 2048},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.server)
			w.join(doing(dying), withSource(func(s *widgetSource) { s.DeadLetters(tc.dead) }))
			seq := w.raw(nats.Created, payload)
			w.waitSaid(seq, "term of delivery 1")
			letters := w.letters("DEAD")
			if len(letters) != 1 || len(letters[0].Data) != 0 {
				t.Fatalf("%d letters, of which the first has %d bytes", len(letters), len(letters[0].Data))
			}
			h := letters[0].Header
			expectError(t, headerError(h.Get(jsource.DeadReference)), fmt.Sprint(len(payload)), "too large",
				"stream shop_widgets keeps it at sequence 1")
			if h.Get(jsource.DeadSubject) != "shop.widgets.created" || h.Get(jsource.DeadRequest) != "a" {
				t.Errorf("its headers are %v", h)
			}
			s, err := w.js.Stream(t.Context(), widgetStream)
			if err != nil {
				t.Fatal(err)
			}
			if original, err := s.GetMsg(t.Context(), seq); err != nil || string(original.Data) != payload {
				t.Errorf("the original: %v", err)
			}
		})
	}
}

// S8: where the original's stream does not keep it, there is no such reference: the original stays.
func TestNoReferenceToWhatIsNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: widgetStream, Subjects: []string{"shop.widgets.>"}, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.js.CreateConsumer(t.Context(), widgetStream, jetstream.ConsumerConfig{
		Durable: widgetDurable, AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	m := w.join(doing(dying), withSource(func(s *widgetSource) {
		s.Bind().DeadLetters(jetstream.StreamConfig{Name: "DEAD", MaxMsgSize: 1024})
	}))
	seq := w.raw(nats.Created, `{"kind":"created","key":"a","new":{"color":"`+strings.Repeat("r", 1000)+`"}}`)
	natstest.Eventually(t, "the source is unhealthy", natstest.Patience, func() error {
		if m.source.Healthy() == nil {
			return errors.New("it is healthy")
		}
		return nil
	})
	expectError(t, m.source.Healthy(), "cannot be a mere reference", "WorkQueue", "message size exceeds maximum")
	// Small ones are kept as they are.
	small := w.publish("b")[0]
	w.waitSaid(small.Sequence, "term of delivery 1")
	w.expectSaid(seq, "")
}

// S8: the letter of an original that is gone from its stream says so.
func TestLetterOfWhatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := make(script)
	defer close(s)
	m := w.join(doing(s.reconcile))
	w.publish("a")
	m.waitBegun(t, "a")
	stream, err := w.js.Stream(t.Context(), widgetStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.end(t, ending{err: reconciler.TerminalError(errTest)})
	letter := w.waitLetters(1)[0]
	if len(letter.Data) != 0 || letter.Header.Get(jsource.DeadSubject) != "shop.widgets.created" {
		t.Errorf("it holds %q, with headers %v", letter.Data, letter.Header)
	}
	expectError(t, headerError(letter.Header.Get(jsource.DeadReference)), "the original is gone")
	w.settled()
}

// S8: an error's text cannot break the letter's headers, however it looks and however long it is.
func TestErrorTextIsCleanedAndCapped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	errs := []error{
		errors.New("line one\r\nInjected: yes\x00\x1b[31m\u2028end"),
		errors.New(strings.Repeat("ü", 2000)),
		errors.New("\xff\xfe broken"),
		errors.New(""),
	}
	do := make(map[string][]ending)
	for i, err := range errs {
		do[fmt.Sprint(i)] = []ending{{err: reconciler.TerminalError(err)}}
	}
	w.join(doing(returning(do)))
	w.publish("0", "1", "2", "3")
	got := map[string]string{}
	for _, letter := range w.waitLetters(4) {
		text := letter.Header.Get(jsource.DeadError)
		got[letter.Header.Get(jsource.DeadRequest)] = text
		if letter.Header.Get("Injected") != "" || !utf8.ValidString(text) || len(text) > 1024 {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
	if want := "terminal error: line one  Injected: yes  [31m end"; got["0"] != want {
		t.Errorf("got %q, want %q", got["0"], want)
	}
	if !strings.HasSuffix(got["1"], "ü…") || len(got["1"]) < 1020 {
		t.Errorf("got %d bytes that end in %q", len(got["1"]), got["1"][len(got["1"])-5:])
	}
	if want := "terminal error:    broken"; got["2"] != want {
		t.Errorf("got %q, want %q", got["2"], want)
	}
}

// shy is a request that does not want to be printed, and says the same of all.
type shy struct{ Name string }

func (s shy) String() string {
	if s.Name == "panics" {
		panic("no")
	}
	return "a shy one"
}

// S8: each request of a message has its letter, though their texts are the same, or a panic.
func TestLettersOfRequestsThatLookAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	src := jsource.Mapped(w.srv.Conn(), widgets, func(context.Context, nats.Event[string, widget]) []shy {
		return []shy{{"a"}, {"b"}, {"panics"}}
	})
	c, err := reconciler.New[shy](keeper).Logger(w.log).Watch(src).
		Func(func(context.Context, shy) (reconciler.Result, error) {
			return reconciler.Result{}, reconciler.TerminalError(errTest)
		})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	r := w.publish("x")[0]
	w.waitSaid(r.Sequence, "term of delivery 1")
	if n := len(w.letters("shop_widgets-dead")); n != 3 {
		t.Errorf("%d letters, want 3", n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// NoDeadLetters: no stream is made for them, and what can never be reconciled is logged and terminated.
func TestNoDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lines := w.keepLog()
	w.join(doing(dying), withSource(func(s *widgetSource) { s.NoDeadLetters() }))
	r := w.publish("a")[0]
	w.waitSaid(r.Sequence, "term of delivery 1")
	w.settled()
	lines.waitFor(t, "level=ERROR", "no dead letters are kept", "sequence=1", "request=a", "out of stock")
	names := w.js.StreamNames(t.Context())
	for name := range names.Name() {
		if name != widgetStream {
			t.Errorf("there is a stream %s", name)
		}
	}
}

// DeadLetters: a stream of one's own, with a name or subjects of one's own, is used; and found by
// WaitReconciled.
func TestDeadLettersElsewhere(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cfg           jetstream.StreamConfig
		subject, name string
	}{
		"name": {
			jetstream.StreamConfig{Name: "MORGUE", MaxAge: time.Hour},
			"jsource.dead.shop_widgets.keeper-shop_widgets.1", "MORGUE",
		},
		"subjects": {
			jetstream.StreamConfig{Subjects: []string{"morgue.shop.>"}, MaxAge: time.Hour},
			"morgue.shop.shop_widgets.keeper-shop_widgets.1", "shop_widgets-dead",
		},
		"both": {
			jetstream.StreamConfig{Name: "MORGUE", Subjects: []string{"morgue.>", "others.>"}, MaxAge: time.Hour},
			"morgue.shop_widgets.keeper-shop_widgets.1", "MORGUE",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.join(doing(dying), withSource(func(s *widgetSource) { s.DeadLetters(tc.cfg) }))
			r := w.publish("a")[0]
			err := jsource.WaitReconciled(t.Context(), w.srv.Conn(), widgetDurable, r)
			if dead := new(jsource.DeadLetterError); !errors.As(err, &dead) {
				t.Errorf("WaitReconciled says %v", err)
			}
			letters := w.letters(tc.name)
			if len(letters) != 1 || letters[0].Subject != tc.subject {
				t.Errorf("%d letters in %s: %v", len(letters), tc.name, letters)
			}
			s, err := w.js.Stream(t.Context(), tc.name)
			if err != nil || s.CachedInfo().Config.MaxAge != time.Hour {
				t.Errorf("its stream is not as asked for: %v", err)
			}
		})
	}
}

// S8: a stream on ">" keeps everything, gives no acks, and there can be no other: it is refused, and under
// Bind it cannot keep dead letters, since it never confirms them.
func TestStreamOfEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := jetstream.StreamConfig{Name: "ALL", Subjects: []string{">"}, NoAck: true}
	_, err := w.js.CreateStream(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.js.CreateConsumer(t.Context(), "ALL", jetstream.ConsumerConfig{
		Durable: widgetDurable, AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "shop.widgets.>",
	})
	if err != nil {
		t.Fatal(err)
	}
	expectError(t, w.refused(), `stream "ALL"`, "no_ack is true", "Bind")
	expectError(t, w.refused(withSource(func(s *widgetSource) { s.Bind() })),
		"dead letters", "NoDeadLetters", `stream "ALL"`, "no_ack is true")
	expectError(t, w.refused(withSource(func(s *widgetSource) {
		s.DeadLetters(jetstream.StreamConfig{Name: "DEAD"})
	})), `stream "ALL"`, "no_ack is true")
}

// S8: where one stream holds the topic and the subjects of dead letters, it keeps both.
func TestDeadLettersBesideTheirOriginals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: widgetStream, Subjects: []string{"shop.>", "jsource.>"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := w.join(doing(dying))
	r := w.publish("a")[0]
	w.waitSaid(r.Sequence, "term of delivery 1")
	letters := w.letters(widgetStream)
	if len(letters) != 2 || letters[1].Subject != "jsource.dead.shop_widgets.keeper-shop_widgets.1" {
		t.Errorf("the stream holds %v", letters)
	}
	dead := new(jsource.DeadLetterError)
	if err := jsource.WaitReconciled(t.Context(), w.srv.Conn(), widgetDurable, r); !errors.As(err, &dead) {
		t.Errorf("WaitReconciled says %v", err)
	}
	w.settled()
	m.expectOnce(t, "a")
}

// S8: an existing stream that cannot keep dead letters is refused at Start.
func TestUnfitDeadLetterStreamIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "jobs", Subjects: []string{"jsource.dead.>"}, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	expectError(t, w.refused(), `controller "keeper"`, "shop.widgets", "dead letters", `stream "jobs"`,
		"retention is WorkQueue")
}
