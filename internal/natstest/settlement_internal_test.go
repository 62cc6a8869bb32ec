package natstest

import (
	"testing"
	"time"
)

func TestAckReplyLayouts(t *testing.T) {
	// All say: stream S, durable D, delivery 2, stream sequence 3, consumer sequence 4, stored at 5 ns.
	for name, subject := range map[string]string{
		"plain":               "$JS.ACK.S.D.2.3.4.5.6",
		"scoped":              "$JS.ACK.hub.aBcDeFgH.S.D.2.3.4.5.6",
		"scoped, no domain":   "$JS.ACK._.aBcDeFgH.S.D.2.3.4.5.6",
		"scoped, random tail": "$JS.ACK.hub.aBcDeFgH.S.D.2.3.4.5.6.x9",
	} {
		got, err := ParseSettlement(subject, "inbox", []byte("+ACK"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got.At = time.Time{}
		want := Settlement{
			Kind: Ack, Payload: "+ACK", Stream: "S", Durable: "D", Deliveries: 2, StreamSeq: 3, ConsumerSeq: 4,
			Stored: time.Unix(0, 5), Reply: "inbox",
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	for _, subject := range []string{
		"$JS.ACK.S.D", "$JS.ACK.S.D.probe", "$JS.ACK.S.D.2.3.4.5.6.7", "$JS.ACK.S.D.x.3.4.5.6",
		"$JS.FC.S.D.2.3.4.5.6", "orders.created",
	} {
		if got, err := ParseSettlement(subject, "", nil); err == nil {
			t.Errorf("%s taken for %+v", subject, got)
		}
	}
}

func TestKinds(t *testing.T) {
	for payload, want := range map[string]Kind{
		"": Ack, "+ACK": Ack, "+OK": Ack, "-NAK": Nak, `-NAK {"delay": 5}`: Nak, "+WPI": InProgress,
		"+TERM": Term, "+TERM too bad": Term, "+NXT": Next, "+NXT 5": Next, "+ACK ": Unknown, "hello": Unknown,
	} {
		if got := kindOf([]byte(payload)); got != want {
			t.Errorf("%q is a %s, want %s", payload, got, want)
		}
	}
}

func TestNakDelay(t *testing.T) {
	for payload, want := range map[string]time.Duration{
		"-NAK": 0, "+ACK": 0, `-NAK {"delay": 1500000}`: 1500 * time.Microsecond, "-NAK 2s": 2 * time.Second,
		`-NAK {"delay":7}`: 7, "-NAK what": 0,
	} {
		if got := (Settlement{Payload: payload}).Delay(); got != want {
			t.Errorf("%q delays by %v, want %v", payload, got, want)
		}
	}
}

func TestPullRequests(t *testing.T) {
	all := `{"expires":2000,"batch":3,"max_bytes":4,"idle_heartbeat":5}`
	for payload, want := range map[string]Pull{
		"":                           {Batch: 1},
		"7":                          {Batch: 7},
		"{":                          {Batch: 1},
		`{"batch":5,"no_wait":true}`: {Batch: 5, NoWait: true},
		all:                          {Batch: 3, MaxBytes: 4, Expires: 2000, Heartbeat: 5},
	} {
		got := parsePull("inbox", []byte(payload))
		got.At, want.Reply = time.Time{}, "inbox"
		if got != want {
			t.Errorf("%q is %v, want %v", payload, got, want)
		}
	}
}
