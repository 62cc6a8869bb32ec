package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	// binaryVariable names the environment variable that says which Chromium to use, instead of one in PATH.
	binaryVariable = "CHROMIUM"
	// width and height are the window's, in pixels.
	width, height = 1200, 900
	// patience bounds each wait for something that takes moments, also on a machine that is very busy.
	patience = 90 * time.Second
)

// binaries are the names that Chromium goes by, as the Makefile looks for them.
var binaries = []string{"chromium", "chromium-browser", "google-chrome"}

func findChromium() (string, error) {
	names := binaries
	if name := os.Getenv(binaryVariable); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no %s in PATH; 'make chromium' installs Debian's, or name one in the environment variable %s",
		strings.Join(names, ", "), binaryVariable)
}

// browser is a headless Chromium of its own, with a profile of its own.
type browser struct{ ctx context.Context }

// openBrowser starts Chromium. It resolves no name, so that pages reach nothing but what listens on this machine.
func openBrowser(ctx context.Context) (*browser, error) {
	path, err := findChromium()
	if err != nil {
		return nil, err
	}
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithAllocatorOptions(
		chromedp.ExecPath(path),
		chromedp.WindowSize(width, height),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	))
	if err := chromedp.Do(ctx); err != nil {
		cancel()
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	return &browser{ctx: ctx}, nil
}

// close ends Chromium and waits until its process is gone.
func (b *browser) close() error {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Cancel(ctx); err != nil {
		return fmt.Errorf("closing Chromium: %w", err)
	}
	return nil
}

// tab is a page, and what it has asked for and complained about.
type tab struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu         sync.Mutex
	requests   []string // URLs
	complaints []string // uncaught exceptions, errors, warnings, and whatever else it writes to the console
}

// openTab opens a page in the colours for the day.
func (b *browser) openTab() (*tab, error) {
	t := new(tab)
	t.ctx, t.cancel = chromedp.NewContext(b.ctx, chromedp.WithListener(t.listen))
	day := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}}
	err := chromedp.Do(t.ctx, chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, day)
		return err
	}))
	if err != nil {
		t.cancel()
		return nil, fmt.Errorf("opening a page in Chromium: %w", err)
	}
	return t, nil
}

func (t *tab) listen(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		t.requests = append(t.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		t.complaints = append(t.complaints, (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *runtime.EventConsoleAPICalled:
		for _, arg := range e.Args {
			t.complaints = append(t.complaints, fmt.Sprintf("console.%s: %s%s", e.Type, arg.Value, arg.Description))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			t.complaints = append(t.complaints, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

// run runs an action on the page, with a bound.
func run[T any](t *tab, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// load loads the page at url.
func (t *tab) load(url string) error {
	if _, err := run(t, chromedp.Navigate(url)); err != nil {
		return fmt.Errorf("loading %s: %w", url, err)
	}
	return nil
}

// loadUntil loads the page at url again and again, as somebody does who waits for something, until is finds no fault
// with what it shows.
func loadUntil[T any](t *tab, url, expression string, is func(T) error) (T, error) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		var shown T
		err := t.load(url)
		if err == nil {
			shown, err = run(t, chromedp.Evaluate[T](expression))
		}
		if err == nil {
			err = is(shown)
		}
		if err == nil {
			return shown, nil
		}
		select {
		case <-ctx.Done():
			return shown, errors.Join(context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
