package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/chromedp/chromedp"
)

// traces are the screenshots of traces, in the order in which the example prints its links.
var traces = []string{"slowest.png", "redelivered.png", "coalesced.png"}

// What there is when the page has drawn a trace, or what a search has found.
const (
	waterfall = "#fall .row"
	results   = "#main td"
)

// drawn is the expression that waits until the page of traces shows such an element or says that something went wrong.
// What it draws with the frame after that, the lines between linked spans, is there as well.
const drawn = `new Promise((done, fail) => {
	const look = () => {
		const bad = document.querySelector(".message.bad");
		if (bad) fail(new Error(bad.innerText));
		else if (document.querySelector(%q)) requestAnimationFrame(() => done(true));
		else requestAnimationFrame(look);
	};
	look();
})`

// waterfallEnd is the expression that says where to cut the page of a trace: below the last row that fits.
const waterfallEnd = `Math.max(...[...document.querySelectorAll("#fall .row")].map(r => r.getBoundingClientRect().bottom)
	.filter((bottom, i) => i === 0 || bottom < 900))`

// traceShown is the expression whose value is what the page of a trace shows, as lines of cells.
const traceShown = `[
	...[...document.querySelectorAll("main > h2, .steps tr")].map(e =>
		e.cells ? ["", ...[...e.cells].map(c => c.innerText.trim())] : [e.innerText]),
	...[...document.querySelectorAll("#fall .row.own")].map(r => {
		const [service, ...brief] = r.querySelector(".dim").innerText.trim().split(" ");
		return ["", " ".repeat(2 * parseInt(r.querySelector(".name").style.paddingLeft)) + r.querySelector("b").innerText, service, brief.join(" ")];
	}),
]`

// openDrawn loads the page of traces and waits until it shows such an element.
func (t *tab) openDrawn(url, element string) error {
	if err := t.load(url); err != nil {
		return err
	}
	if _, err := run(t, chromedp.Evaluate[bool](fmt.Sprintf(drawn, element), chromedp.EvalAwaitPromise)); err != nil {
		return fmt.Errorf("waiting until %s is drawn: %w", url, err)
	}
	return nil
}

// shootTraces runs the example, and makes the screenshots of the traces that it finds most telling.
func shootTraces(ctx context.Context, b *browser) (err error) {
	links, stop, err := runExample(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for i, link := range links {
		if err := shootTrace(b, link, traces[i]); err != nil {
			return err
		}
	}
	return nil
}

func shootTrace(b *browser, link, file string) error {
	t, err := b.openTab()
	if err != nil {
		return err
	}
	defer t.cancel()
	if err := t.openDrawn(link, waterfall); err != nil {
		return err
	}
	lines, err := run(t, chromedp.Evaluate[[][]string](traceShown))
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n", file)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, cells := range lines {
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush()
	return t.shoot(file, waterfallEnd)
}

var linkLine = regexp.MustCompile(`^ +(http://\S+#trace=\w+)$`)

// runExample runs examples/jaeger until it prints its links, which lead somewhere until stop is called.
func runExample(ctx context.Context) (links []string, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "jsource-browser-")
	if err != nil {
		return nil, nil, err
	}
	// Built first, since go run does not pass on the signal that ends it.
	binary := filepath.Join(dir, "jaeger")
	build := exec.CommandContext(ctx, "go", "-C", examples, "build", "-o", binary, "./jaeger")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("building the example: %w", err), os.RemoveAll(dir))
	}
	cmd := exec.CommandContext(ctx, binary, "-keep")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it takes everything down with it
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("starting the example: %w", err), os.RemoveAll(dir))
	}
	stop = func() error {
		_ = cmd.Process.Signal(os.Interrupt) // fails only if it is gone already
		return errors.Join(cmd.Wait(), os.RemoveAll(dir))
	}
	for lines := bufio.NewScanner(out); len(links) < len(traces); {
		if !lines.Scan() {
			return nil, nil, errors.Join(errors.New("the example has ended without its links"), stop())
		}
		fmt.Println(lines.Text())
		if m := linkLine.FindStringSubmatch(lines.Text()); m != nil {
			links = append(links, m[1])
		}
	}
	return links, stop, nil
}
