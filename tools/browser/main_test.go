package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a Chromium that ends with the test.
func open(t *testing.T) *browser {
	t.Helper()
	b, err := openBrowser(context.Background()) // the test's own ends before its cleanups
	if err != nil {
		t.Fatal(err)
	}
	process := chromedp.FromContext(b.ctx).Browser.Process()
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
		if err := process.Signal(os.Kill); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("Chromium is still there: %v", err)
		}
	})
	return b
}

// blank is a page of that Chromium.
func (b *browser) blank(t *testing.T) *tab {
	t.Helper()
	page, err := b.openTab()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(page.cancel)
	return page
}

// expectQuiet checks that the page has asked nobody but the server at base for anything, and has not complained.
func (t *tab) expectQuiet(tb *testing.T, base string) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	asked := 0
	for _, request := range t.requests {
		switch u, err := url.Parse(request); {
		case err == nil && "http://"+u.Host == base:
			asked++
		case err == nil && (u.Scheme == "data" || request == "about:blank"): // nobody is asked
		default:
			tb.Errorf("the page asks for %s", request)
		}
	}
	if asked == 0 {
		tb.Error("no request was seen, not even that for the page")
	}
	for _, complaint := range t.complaints {
		tb.Errorf("the console says: %s", complaint)
	}
}
