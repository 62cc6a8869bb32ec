// Command pictures draws the pictures of the docs from their sources: each .dot file of the folder docs/pictures with
// Graphviz, as SVG, beside it.
//
//	go run . ../../docs/pictures
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-graphviz"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pictures <folder>")
		os.Exit(2)
	}
	if err := drawAll(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// drawAll draws every picture of a folder.
func drawAll(ctx context.Context, dir string) error {
	sources, err := filepath.Glob(filepath.Join(dir, "*.dot"))
	if err != nil || len(sources) == 0 {
		return fmt.Errorf("no .dot file in %q (%w)", dir, err)
	}
	for _, source := range sources {
		svg, err := draw(ctx, source)
		if err == nil {
			err = os.WriteFile(pictureOf(source), svg, 0o644) //nolint:gosec // a page shows it
		}
		if err != nil {
			return fmt.Errorf("drawing %s: %w", source, err)
		}
	}
	return nil
}

// pictureOf is the file that source is drawn to.
func pictureOf(source string) string { return strings.TrimSuffix(source, ".dot") + ".svg" }

// draw returns source as SVG.
func draw(ctx context.Context, source string) (svg []byte, err error) {
	text, err := os.ReadFile(source) //nolint:gosec // whoever draws it names it
	if err != nil {
		return nil, err
	}
	g, err := graphviz.New(ctx)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	graph, err := graphviz.ParseBytes(text)
	if err != nil {
		return nil, err
	}
	defer graph.Close()
	var out bytes.Buffer
	if err := g.Render(ctx, graph, graphviz.SVG, &out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
