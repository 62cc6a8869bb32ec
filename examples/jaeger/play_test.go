package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

func TestExample(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-duration", "6s", "-rate", "40")
	cmd.Env = append(os.Environ(), asExample+"=1", "TMPDIR="+dir, "TMP="+dir, "TEMP="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"SIGKILL", "every message is settled", "The slowest event", "Redelivered after the kill", "Coalesced"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	links := regexp.MustCompile(`http://127\.0\.0\.1:\d+/#trace=[0-9a-f]{32}\n`).FindAllString(string(out), -1)
	if len(links) != 3 || links[0] == links[1] || links[1] == links[2] {
		t.Errorf("links %q, want three traces:\n%s", links, out)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// Jaeger serves our page as it is, and the page needs nothing from elsewhere.
func TestPage(t *testing.T) {
	j, err := testJaeger()
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, j.url+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	served, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := page.ReadFile("ui/index.html")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(served, ours) {
		t.Errorf("Jaeger serves another page:\n%.300s", served)
	}
	if m := regexp.MustCompile(`(?i)\bsrc=|url\(|@import|https?://[^w]|href="http`).Find(ours); m != nil {
		t.Errorf("the page asks for something from elsewhere: %q", m)
	}
}

func TestWithoutJaeger(t *testing.T) {
	t.Setenv(binaryVariable, "/nowhere/jaeger")
	_, err := startJaeger(context.Background(), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "make jaeger-server") {
		t.Errorf("the error is %v, want the make target that builds it", err)
	}
}

func TestFlags(t *testing.T) {
	for line, says := range map[string]string{
		"-rate 0":                            "-rate 0",
		"-duration 1s":                       "-duration 1s",
		"-duration 1h":                       "-duration 1h",
		"-otlp localhost:4317":               "-jaeger",
		"-jaeger localhost":                  "no URL",
		"more":                               `"more"`,
		"-jaeger http://localhost:16686":     "",
		"-jaeger https://[::1]/jaeger -keep": "",
	} {
		var out bytes.Buffer
		s, err := parse(strings.Fields(line), &out)
		if (err == nil) != (says == "") || !strings.Contains(out.String(), says) {
			t.Errorf("%s: %v, %s", line, err, &out)
		}
		if err == nil && !strings.HasSuffix(s.otlp, ":4317") {
			t.Errorf("%s: the endpoint is %q", line, s.otlp)
		}
	}
}
