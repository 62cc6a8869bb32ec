package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/levelstream/jsource/internal/kubetest"
)

func TestExample(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", kubetest.Assets(t))
	var out bytes.Buffer
	if code := run([]string{"-settings", "10"}, &out); code != 0 {
		t.Fatalf("exit status %d\n%s", code, &out)
	}
	for _, want := range []string{"20 changes", "10 of 10 ConfigMaps"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
}

func TestExample_RefusesWhatItDoesNotKnow(t *testing.T) {
	if code := run([]string{"-nonsense"}, &bytes.Buffer{}); code != 2 {
		t.Errorf("exit status %d", code)
	}
}
