package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/levelstream/jsource/reconciler/nats"
)

func TestMain(m *testing.M) {
	ServeIfChild()
	os.Exit(m.Run())
}

// command runs the command as it is typed, and returns its runs.
func command(t *testing.T, args ...string) []*Result {
	t.Helper()
	var said, out bytes.Buffer
	dir := t.TempDir()
	s, err := parse("bench", append(args, "-o", "json", "-plots", dir), &said, Ours())
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, said.String())
	}
	if err := playAll(t.Context(), s, &out, newProgress(io.Discard)); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v printed no JSON: %v\n%s", args, err, out.String())
	}
	plots, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil || len(plots) == 0 {
		t.Errorf("%v: no plots (%v)", args, err)
	}
	for _, plot := range plots {
		data, err := os.ReadFile(plot)
		if err == nil {
			err = xml.Unmarshal(data, new(struct{}))
		}
		if err != nil || bytes.Contains(data, []byte("NaN")) || bytes.Contains(data, []byte("Inf")) {
			t.Errorf("%v: %s is no picture: %v", args, plot, err)
		}
	}
	return r.Runs
}

// TestNumbersAddUp: every event is accounted for, whatever happens, and jsource loses none.
func TestNumbersAddUp(t *testing.T) {
	for _, test := range []struct {
		name string
		args string
		runs int
	}{
		{"as fast as it goes", "-rate 0 -events 1000 -keys 1,100,0 -storage memory", 6},
		{"open loop", "-rate 2000 -events 600 -publishers 3 -reconcile heavy:100us", 2},
		{"cut", "-rate 2000 -events 800 -fault cut -ack-wait 1s", 2},
		{"cut, as fast as it goes", "-rate 0 -events 2000 -fault cut -reconcile 100us -ack-wait 1s", 2},
		{"restart", "-rate 2000 -events 800 -fault restart -ack-wait 1s", 2},
		{"restart of a process", "-source jsource -rate 2000 -events 800 -ack-wait 1s -fault restart -server process", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // they mostly wait for the end of an outage
			runs := command(t, strings.Fields(test.args)...)
			if len(runs) != test.runs {
				t.Fatalf("%d runs, want %d", len(runs), test.runs)
			}
			for _, r := range runs {
				check(t, r)
			}
		})
	}
}

func check(t *testing.T, r *Result) {
	t.Helper()
	n := r.Spec.Events
	if r.Covered+r.Lost != n {
		t.Errorf("%s, %s: %d covered and %d lost, of %d events", r.Contender, r.Spec.long(), r.Covered, r.Lost, n)
	}
	if r.Lost > 0 && (r.Contender == JSource || r.Spec.Fault == faultNone) {
		t.Errorf("%s, %s: %d events lost", r.Contender, r.Spec.long(), r.Lost)
	}
	if r.Contender == JSource && r.Settled < uint64(n) {
		t.Errorf("%s: the server says that %d of %d are settled", r.Spec.long(), r.Settled, n)
	}
	if r.HandOuts < int64(r.Covered) || r.Attempts < 1 || r.Attempts > 2*r.HandOuts {
		t.Errorf("%s, %s: %d hand-outs and %d attempts for %d events", r.Contender, r.Spec.long(), r.HandOuts, r.Attempts, r.Covered)
	}
	if r.EventsPerSecond <= 0 || r.CPUMicrosPerEvent <= 0 || r.AllocsPerEvent <= 0 || r.WireIn < float64(r.Spec.Payload)/2 {
		t.Errorf("%s, %s: a figure is missing: %+v", r.Contender, r.Spec.long(), r)
	}
	if (r.Spec.Fault != faultNone) != (r.FaultAt > 0) {
		t.Errorf("%s, %s: fault at %v s", r.Contender, r.Spec.long(), r.FaultAt)
	}
	if r.Spec.Rate == 0 {
		return
	}
	if r.ToReconcile == nil || r.ToReconcile.N != int64(r.Covered) {
		t.Errorf("%s, %s: event to reconcile is %+v, for %d events", r.Contender, r.Spec.long(), r.ToReconcile, r.Covered)
	}
	// In an outage acks can get lost, also those that the witness was to see.
	if r.Contender == JSource && r.Spec.Fault == faultNone && (r.ToSettled == nil || r.ToSettled.N != int64(n) || r.Acks < int64(n)) {
		t.Errorf("%s: event to settled is %+v, with %d acks, for %d events", r.Spec.long(), r.ToSettled, r.Acks, n)
	}
}

// TestBody: what is patched together is what the topic would have encoded, in the size that was asked for.
func TestBody(t *testing.T) {
	topic := nats.NewTopic[string, Row]("bench.stages")
	for _, size := range []int{minPayload, 300, 2048, 65536} {
		b, err := newBody(topic, size)
		if err != nil {
			t.Fatal(err)
		}
		var buf []byte
		for _, n := range []int{7, 123456} {
			buf = b.write(buf, n, n+1)
			if len(buf) > size || len(buf) < size*9/10 {
				t.Errorf("%d bytes, want %d", len(buf), size)
			}
			e, err := topic.Decode(topic.SubjectOf(nats.Updated), buf)
			if err != nil {
				t.Fatal(err)
			}
			key, err := keyIndex(e.Key)
			if Number(&e) != n || key != n+1 || err != nil {
				t.Errorf("event %d of key %d says it is %d of %q (%v)", n, n+1, Number(&e), e.Key, err)
			}
			if again, err := topic.Encode(e); err != nil || !bytes.Equal(again, buf) {
				t.Errorf("the topic encodes it as %s (%v), it is %s", again, err, buf)
			}
		}
	}
}

// TestWrongFlags: each error names the flag.
func TestWrongFlags(t *testing.T) {
	for _, args := range []string{
		"-keys -1", "-keys x", "-payload 10", "-workers 0", "-reconcile long", "-rate -1", "-events 0", "-storage tape",
		"-replicas 2", "-publishers 0", "-fault fire", "-fault restart -storage memory", "-fault restart -nats nats://x",
		"-server none", "-source kafka", "-rounds 0", "-duration 0s", "-o xml", "-max-ack-pending -1", "-ack-wait 1ms",
	} {
		_, err := parse("bench", strings.Fields(args), io.Discard, Ours())
		if flagName, _, _ := strings.Cut(args, " "); err == nil || !strings.Contains(err.Error(), flagName) {
			t.Errorf("%s: the error is %v", args, err)
		}
	}
}
