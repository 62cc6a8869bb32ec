package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -123456: "-123,456",
	} {
		if is := thousands(n); is != want {
			t.Errorf("%d is written %q", n, is)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "–", 1500 * time.Microsecond: "1.5 ms", 42 * time.Millisecond: "42 ms",
		1250 * time.Millisecond: "1.2 s", 12 * time.Second: "12 s",
	} {
		if is := duration(d); is != want {
			t.Errorf("%v is written %q", d, is)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	st := style{on: true}
	line := st.green("██") + "ab" + st.red("é")
	for width, want := range map[int]string{9: "██abé", 3: "██a", 0: ""} {
		is := cut(line, width)
		if uncoloured(is) != want {
			t.Errorf("cut to %d it is %q", width, is)
		}
		if strings.Count(is, reset) != 2 {
			t.Errorf("cut to %d its colours do not end: %q", width, is)
		}
	}
}

// In a terminal the lines are drawn over; elsewhere there is not one escape sequence.
func TestView(t *testing.T) {
	t.Parallel()
	l := newLedger(stagesOf(10))
	for _, redraws := range []bool{true, false} {
		var out bytes.Buffer
		v := newView(&out, terminal{redraws: redraws, width: func() int { return 80 }}, l, 100)
		v.say("first")
		v.mu.Lock()
		v.draw()
		v.mu.Unlock()
		v.say("second")
		v.start()
		v.close()
		is := out.String()
		for _, part := range []string{"first", "second", "published"} {
			if !strings.Contains(is, part) {
				t.Errorf("redraws %v: no %q in %q", redraws, part, is)
			}
		}
		if ups := strings.Count(is, escape+"5A"); redraws != (ups == 3) || !redraws && strings.Contains(is, escape) {
			t.Errorf("redraws %v: %d times over the last drawing: %q", redraws, ups, is)
		}
		for line := range strings.Lines(is) {
			if n := utf8.RuneCountInString(uncoloured(line)); redraws && n > 80 && !strings.Contains(line, escape) {
				t.Errorf("a line of %d characters in a terminal of 80: %q", n, line)
			}
		}
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-events 99":   "-events 99: at least 100",
		"-keys 1":      "-keys 1: at least 10",
		"-rate 0":      "-rate 0: at least 1",
		"-resync 10ms": "-resync 10ms: at least 1s",
		"more":         `unexpected argument "more"`,
		"-h":           "default 600",
	} {
		var out bytes.Buffer
		if _, err := parse(strings.Fields(args), &out); err == nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, %q", args, err, out.String())
		}
	}
	if s, err := parse(nil, new(bytes.Buffer)); err != nil || s.events != 12000 || s.resync != 15*time.Second {
		t.Errorf("%+v, %v", s, err)
	}
}
