package jsource

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	natsgo "github.com/nats-io/nats.go"
)

// FuzzClean checks that whatever an error or a request says fits into a header of a dead letter: printable, within
// its limit, and the same when it is cleaned again.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{
		"", "out of stock", "line\r\nNats-Msg-Id: forged", "\x1b[31mred", "\u202eleft", "half \xc3", "null\x00",
		strings.Repeat("🚢", 400), strings.Repeat("x", maxErrorText), strings.Repeat("x", maxErrorText-1) + "🚢",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s, maxErrorText)
		if len(got) > maxErrorText || !utf8.ValidString(got) {
			t.Errorf("%q became %d bytes, %q", s, len(got), got)
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q became %q, which has a %q in it", s, got, got[i:])
		}
		if again := clean(got, maxErrorText); again != got {
			t.Errorf("%q became %q and then %q", s, got, again)
		}
	})
}

// FuzzAddOriginal checks that no header of an event can pass for one of its dead letter, or mean something to the
// server that stores that.
func FuzzAddOriginal(f *testing.F) {
	for _, seed := range []string{
		"Tenant", "Nats-Msg-Id", "nats-rollup", "NATS-EXPECTED-STREAM", "Jsource-Dead-Reason", "Jsource-Original-Nats-Msg-Id", "",
	} {
		f.Add(seed, "value")
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		letter := natsgo.NewMsg("jsource.dead.S.D.1")
		letter.Header.Set(DeadReason, "terminal")
		addOriginal(letter, "shop.widgets.created", natsgo.Header{name: {value, value}}, []byte("payload"))
		if got := letter.Header[DeadReason]; len(got) != 1 || got[0] != "terminal" {
			t.Errorf("with header %q the reason is %q", name, got)
		}
		if got := letter.Header[DeadSubject]; len(got) != 1 || got[0] != "shop.widgets.created" {
			t.Errorf("with header %q the subject is %q", name, got)
		}
		for key := range letter.Header {
			if strings.HasPrefix(strings.ToLower(key), "nats-") {
				t.Errorf("header %q is still one for the server", key)
			}
		}
		if string(letter.Data) != "payload" {
			t.Errorf("the payload is %q", letter.Data)
		}
	})
}
