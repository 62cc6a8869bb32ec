// Command browser makes the screenshots of docs, of pages that it has just made something happen on, with a headless
// Chromium. Its tests look at the same pages. It is a module of its own, so that nobody else compiles what drives a
// browser.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Where things are, from this folder.
const (
	images   = "../../docs/images/"
	examples = "../../examples"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := shoot(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
}

// shoot makes every screenshot, and prints what the pages of traces say, for docs/tracing.md.
func shoot(ctx context.Context) (err error) {
	b, err := openBrowser(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := shootView(ctx, b); err != nil {
		return err
	}
	return shootTraces(ctx, b)
}
