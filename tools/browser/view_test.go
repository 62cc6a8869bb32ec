package main

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/jsource/jsourcetest"
)

// What a person sees of a controller in trouble: which requests hold its messages, and why. What keys and errors say is
// text, whatever it looks like.
func TestViewInABrowser(t *testing.T) {
	const (
		hangs = `fleet/<script>document.title = "owned"</script>`
		fails = `fleet/<img src="http://192.0.2.1/" onerror='document.title = "owned"'>`
		why   = `the <b>cluster</b> does not answer</td></table><script>document.title = "owned"</script>`
	)
	srv := jsourcetest.Start(t)
	c, source, err := inTrouble(srv.Conn(), hangs, fails, errors.New(why))
	if err != nil {
		t.Fatal(err)
	}
	jsourcetest.Run(t, c)
	for i, stage := range []string{hangs, fails, fails, "fleet/good"} {
		if _, err := jsource.PublishCreated(t.Context(), srv.Publisher(), promotionRequests, i, promotionRequest{Stage: stage}); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(jsource.View(source))
	t.Cleanup(server.Close)

	page := open(t).blank(t)
	v, err := loadUntil(page, server.URL, viewShown, func(v view) error {
		hanging, err := v.row(hangs)
		if err != nil {
			return err
		}
		failing, err := v.row(fails)
		if err != nil {
			return err
		}
		switch {
		case v.Facts["unsettled, all replicas"] != "3 of 1000" || v.Facts["held here"] != "3" || v.Facts["reconciled events"] != "1":
			return fmt.Errorf("3 messages are to be unsettled and 1 reconciled: %v", v.Facts)
		case hanging[columnMessages] != "1" || hanging[columnRunning] != "yes" || hanging[columnFailed] != "0" || hanging[columnError] != "":
			return fmt.Errorf("what hangs is shown as %q", hanging)
		case failing[columnMessages] != "2" || failing[columnFailed] == "0" || failing[columnError] != why:
			return fmt.Errorf("what fails is shown as %q", failing)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := controllerName + " · jsource kargo.promotionrequests.>"; !slices.Equal(v.Headings, []string{want}) {
		t.Errorf("the headings are %q, want %q", v.Headings, want)
	}
	if v.State != "consuming" || v.Facts["durable"] != "fleet_stage-kargo_promotionrequests" || v.Facts["stream"] != "kargo_promotionrequests" {
		t.Errorf("the source is shown as %s, %v", v.State, v.Facts)
	}
	if v.Title != "jsource" || v.Foreign != 0 || len(v.Held) != 2 {
		t.Errorf("the page is %q, with %d elements that are not its own and %d rows", v.Title, v.Foreign, len(v.Held))
	}
	page.expectQuiet(t, server.URL)
}
