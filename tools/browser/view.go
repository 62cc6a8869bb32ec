package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

// promotionRequest is what the events carry.
type promotionRequest struct{ Stage string }

var promotionRequests = nats.NewTopic[int, promotionRequest]("kargo.promotionrequests")

// controllerName is the controller's that is in trouble.
const controllerName = "fleet_stage"

// inTrouble is a fleet-stage controller two of whose Stages hold their messages: an attempt on one hangs, those on the
// other fail.
func inTrouble(conn *natsgo.Conn, hangs, fails string, failure error) (
	*reconciler.Controller[string], *jsource.Source[int, promotionRequest, string], error,
) {
	source := jsource.Mapped(conn, promotionRequests, func(_ context.Context, e nats.Event[int, promotionRequest]) []string {
		return []string{e.New.Stage}
	})
	c, err := reconciler.New[string](controllerName).Watch(source).Workers(4).
		Grace(0). // what hangs would not end by itself
		Logger(slog.New(slog.DiscardHandler)).
		Func(func(ctx context.Context, stage string) (reconciler.Result, error) {
			switch stage {
			case hangs:
				<-ctx.Done()
				return reconciler.Result{}, context.Cause(ctx)
			case fails:
				return reconciler.Result{}, failure
			}
			return reconciler.Result{}, nil
		})
	return c, source, err
}

// view is what the page of jsource.View shows to a person.
type view struct {
	Title    string
	Headings []string
	State    string            // what is said of the source's health
	Facts    map[string]string // by name
	Held     [][]string        // the rows of the table
	Foreign  int               // scripts, images and whatever else a page of texts has none of
}

// viewShown is the expression whose value is a view.
const viewShown = `({
	Title: document.title,
	Headings: [...document.querySelectorAll("h2")].map(h => h.innerText),
	State: document.querySelector("p").innerText,
	Facts: Object.fromEntries([...document.querySelectorAll("dl div")].map(d =>
		[d.querySelector("dt").innerText, d.querySelector("dd").innerText])),
	Held: [...document.querySelectorAll("tr:has(td)")].map(r => [...r.cells].map(c => c.innerText)),
	Foreign: document.querySelectorAll("script, img, iframe, object, embed, link, svg").length,
})`

// The columns of the table.
const (
	columnRequest = iota
	columnMessages
	columnFor
	columnFailed
	columnRunning
	columnError
)

// row is what the table says of a request.
func (v *view) row(request string) ([]string, error) {
	i := slices.IndexFunc(v.Held, func(row []string) bool { return row[columnRequest] == request })
	if i < 0 {
		return nil, fmt.Errorf("the page does not name %q: %q", request, v.Held)
	}
	return v.Held[i], nil
}
