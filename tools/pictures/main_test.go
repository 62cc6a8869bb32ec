package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestPicturesAreCurrent: each picture is what its source says.
func TestPicturesAreCurrent(t *testing.T) {
	sources, err := filepath.Glob("../../docs/pictures/*.dot")
	if err != nil || len(sources) == 0 {
		t.Fatalf("%d sources (%v)", len(sources), err)
	}
	for _, source := range sources {
		want, err := draw(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(pictureOf(source))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what %s says: run 'make pictures'", pictureOf(source), source)
		}
	}
}
