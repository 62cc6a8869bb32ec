package main

import (
	"os/exec"
	"testing"

	"github.com/levelstream/jsource/jsource/jsourcetest"
)

func TestQuickstart(t *testing.T) {
	srv := jsourcetest.Start(t)
	out, err := exec.Command("go", "run", ".", srv.URL()).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out), "reconciling order o-1\nsettled, says the server\n"; got != want {
		t.Errorf("it prints %q, want %q", got, want)
	}
}
