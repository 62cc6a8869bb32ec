package main

import (
	"context"
	"fmt"
	"os"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// mostBytes bounds a screenshot, for whoever clones the repository.
const mostBytes = 200 << 10

// shoot writes what the page shows from its top down to bottom, an expression in the page, to a file in images.
func (t *tab) shoot(file, bottom string) error {
	down, err := run(t, chromedp.Evaluate[float64](bottom))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	shot, err := run(t, func(ctx context.Context, target *chromedp.Target) ([]byte, error) {
		beyond := true
		r, err := cdp.Call(ctx, target, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Clip: &page.Viewport{Width: width, Height: down + 8, Scale: 1}, CaptureBeyondViewport: &beyond,
		})
		return r.Data, err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(shot) > mostBytes {
		return fmt.Errorf("%s would have %d bytes, more than %d", file, len(shot), mostBytes)
	}
	return os.WriteFile(images+file, shot, 0o644) //nolint:gosec // whoever may read the repository may see it
}
