package consumer

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseReply(t *testing.T) { // not parallel: it counts allocations
	want := delivery{count: 2, seq: 30, cseq: 400, time: 1700000000000000000}
	const numbers = "2.30.400.1700000000000000000.5"
	for reply, ok := range map[string]bool{
		"$JS.ACK.ORDERS.worker." + numbers:                      true,
		"$JS.ACK.hub.ACCHASH.ORDERS.worker." + numbers:          true,
		"$JS.ACK._.ACCHASH.ORDERS.worker." + numbers + ".token": true,
		"$JS.ACK._.ACCHASH.ORDERS.worker." + numbers + ".a.b.c": true,
		"":         false,
		"$JS.ACK.": false,
		"$JS.ACK.ORDERS.worker.2.30.400.1700000000000000000":         false, // no pending
		"$JS.ACK.a.ORDERS.worker." + numbers:                         false, // neither layout
		"$JS.ACK.ORDERS.worker.2.30.-400.1700000000000000000.5":      false,
		"$JS.ACK.ORDERS.worker.2.30.x.1700000000000000000.5":         false,
		"$JS.ACK.ORDERS.worker.2.30.400.9300000000000000000.5":       false, // no time
		"$JS.ACK.ORDERS.worker.2.99999999999999999999.400.1700000.5": false,
		"$JS.ack.ORDERS.worker." + numbers:                           false,
		"_INBOX.abc.def":                                             false,
	} {
		got, err := parseReply(reply)
		switch {
		case ok != (err == nil):
			t.Errorf("%q: %v", reply, err)
		case ok && got != want:
			t.Errorf("%q: %+v, want %+v", reply, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = parseReply("$JS.ACK.ORDERS.worker." + numbers) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// FuzzParseReply checks that what is parsed reads the same when it is written again, in both layouts.
func FuzzParseReply(f *testing.F) {
	f.Add("$JS.ACK.ORDERS.worker.2.30.400.1700000000000000000.5")
	f.Add("$JS.ACK._.HASH.ORDERS.worker.2.30.400.1700000000000000000.5.token")
	f.Add("$JS.ACK.........")
	f.Add("$JS.ACK.a.b.1.2.3.4.")
	f.Fuzz(func(t *testing.T, reply string) {
		d, err := parseReply(reply)
		if err != nil {
			return
		}
		if !strings.HasPrefix(reply, "$JS.ACK.") || d.time < 0 {
			t.Errorf("%q was parsed as %+v", reply, d)
		}
		for _, layout := range []string{"$JS.ACK.S.C.%d.%d.%d.%d.0", "$JS.ACK.D.A.S.C.%d.%d.%d.%d.0.token"} {
			again := fmt.Sprintf(layout, d.count, d.seq, d.cseq, d.time)
			if got, err := parseReply(again); err != nil || got != d {
				t.Errorf("%q was parsed as %+v, but %q as %+v, %v", reply, d, again, got, err)
			}
		}
	})
}
