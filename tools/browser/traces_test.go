package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A span is one as Jaeger's API tells it.
type span struct {
	TraceID           string      `json:"traceId"`
	SpanID            string      `json:"spanId"`
	ParentSpanID      string      `json:"parentSpanId,omitempty"`
	Name              string      `json:"name"`
	StartTimeUnixNano string      `json:"startTimeUnixNano"`
	EndTimeUnixNano   string      `json:"endTimeUnixNano"`
	Attributes        []attribute `json:"attributes,omitempty"`
	Links             []link      `json:"links,omitempty"`
	Status            *status     `json:"status,omitempty"`
}

type (
	attribute struct {
		Key   string            `json:"key"`
		Value map[string]string `json:"value"`
	}
	link struct {
		TraceID string `json:"traceId"`
		SpanID  string `json:"spanId"`
	}
	status struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
)

func text(key, value string) attribute {
	return attribute{Key: key, Value: map[string]string{"stringValue": value}}
}

// answer is what the API says of the spans.
func answer(spans ...span) any {
	type m map[string]any
	return m{"result": m{"resourceSpans": []m{{
		"resource":   m{"attributes": []attribute{text("service.name", controllerName)}},
		"scopeSpans": []m{{"spans": spans}},
	}}}}
}

// at is a time so many milliseconds after the beginning of the traces.
func at(ms string) string { return "1800000000" + ms + "000000" }

// hostile is an error that wants to be more than text.
const hostile = `no <img src="http://192.0.2.1/" onerror='document.title = "owned"'> today`

// The first trace is of a message that an attempt failed on, in vain, and another one reconciled; the second of one that
// the latter covers too; the third of one whose publisher does not trace.
const (
	first  = "11111111111111111111111111111111"
	second = "22222222222222222222222222222222"
	third  = "33333333333333333333333333333333"
)

var (
	retried = link{TraceID: first, SpanID: "000000000000000d"}
	stored  = map[string][]span{
		first: {
			{
				TraceID: first, SpanID: "000000000000000a", Name: "send kargo.promotionrequests",
				StartTimeUnixNano: at("000"), EndTimeUnixNano: at("010"),
			},
			{
				TraceID: first, SpanID: "000000000000000b", ParentSpanID: "000000000000000a", Name: "process kargo.promotionrequests",
				StartTimeUnixNano: at("030"), EndTimeUnixNano: at("500"),
				Attributes: []attribute{
					text("messaging.message.id", "promotion-1"), text("jsource.delivery.count", "1"), text("jsource.settlement", "ack"),
				},
				Links: []link{{TraceID: first, SpanID: "000000000000000c"}, retried},
			},
			{
				TraceID: first, SpanID: "000000000000000c", ParentSpanID: "000000000000000b", Name: "reconcile fleet_stage",
				StartTimeUnixNano: at("060"), EndTimeUnixNano: at("100"),
				Attributes: []attribute{text("jsource.attempt", "1"), text("jsource.outcome", "failed"), text("jsource.owed", "1")},
				Status:     &status{Code: 2, Message: hostile},
			},
			{
				TraceID: first, SpanID: retried.SpanID, ParentSpanID: "000000000000000b", Name: "reconcile fleet_stage",
				StartTimeUnixNano: at("200"), EndTimeUnixNano: at("450"),
				Attributes: []attribute{text("jsource.attempt", "2"), text("jsource.outcome", "success"), text("jsource.owed", "2")},
				Links:      []link{{TraceID: first, SpanID: "000000000000000b"}, {TraceID: second, SpanID: "000000000000000f"}},
			},
		},
		second: {
			{
				TraceID: second, SpanID: "000000000000000e", Name: "send kargo.promotionrequests",
				StartTimeUnixNano: at("150"), EndTimeUnixNano: at("160"),
			},
			{
				TraceID: second, SpanID: "000000000000000f", ParentSpanID: "000000000000000e", Name: "process kargo.promotionrequests",
				StartTimeUnixNano: at("170"), EndTimeUnixNano: at("460"),
				Attributes: []attribute{
					text("messaging.message.id", "promotion-2"), text("jsource.delivery.count", "1"), text("jsource.settlement", "ack"),
				},
				Links: []link{retried},
			},
		},
		third: {{
			TraceID: third, SpanID: "0000000000000010", Name: "process kargo.promotionrequests",
			StartTimeUnixNano: at("300"), EndTimeUnixNano: at("400"),
			Attributes: []attribute{
				text("messaging.message.id", "promotion-3"), text("jsource.delivery.count", "2"), text("jsource.settlement", "given_back"),
				text("jsource.stored", "2027-01-15T08:00:00.2499Z"),
			},
		}},
	}
)

// serveTraces serves the example's page, with what Jaeger would answer.
func serveTraces(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	say := func(what any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if err := json.NewEncoder(w).Encode(what); err != nil {
				t.Error(err)
			}
		}
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, examples+"/jaeger/ui/index.html")
	})
	mux.Handle("GET /api/v3/services", say(map[string]any{"services": []string{controllerName}}))
	mux.Handle("GET /api/v3/operations", say(map[string]any{"operations": []any{map[string]string{"name": "reconcile fleet_stage"}}}))
	mux.Handle("GET /api/v3/traces", say(answer(stored[first]...)))
	for id, spans := range stored {
		mux.Handle("GET /api/v3/traces/"+id, say(answer(spans...)))
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// The page of examples/jaeger: where the time of a delivery went, over both traces, from either side.
func TestTraceInABrowser(t *testing.T) {
	base, chromium := serveTraces(t), open(t)
	for id, want := range map[string][]string{
		first: {
			"Delivery 1 of promotion-1: 500 ms from publish to settled (ack)",
			"publish → stored|10.0 ms|2.0 %|",
			"stored → delivered|20.0 ms|4.0 %|",
			"delivered → queued → attempt|30.0 ms|6.0 %|",
			"attempt 1: failed|40.0 ms|8.0 %|" + hostile,
			"until the next attempt|100 ms|20.0 %|",
			"attempt 2: success|250 ms|50.0 %|it covers 2 messages",
			"reconciled → settled|50.0 ms|10.0 %|ack",
			"Waterfall of 2 linked traces",
		},
		second: {
			"Delivery 1 of promotion-2: 310 ms from publish to settled (ack)",
			"publish → stored|10.0 ms|3.2 %|",
			"stored → delivered|10.0 ms|3.2 %|",
			"delivered → queued → attempt|30.0 ms|9.7 %|",
			"attempt 2: success|250 ms|80.6 %|it covers 2 messages",
			"reconciled → settled|10.0 ms|3.2 %|ack",
			"Waterfall of 2 linked traces",
		},
		third: {
			"Delivery 2 of promotion-3: 150 ms from stored to settled (given_back)",
			"stored → delivery 2|50.1 ms|33.4 %|by the NATS server's clock; nothing is known of the publisher",
			"delivered → settled|100 ms|66.6 %|given_back: no attempt is linked",
			"Waterfall",
		},
	} {
		page := chromium.blank(t)
		if err := page.openDrawn(base+"/#trace="+id, waterfall); err != nil {
			t.Fatal(err)
		}
		lines, err := run(page, chromedp.Evaluate[[][]string](traceShown))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, cells := range lines[:min(len(lines), len(want))] { // below are the rows of the waterfall
			got = append(got, strings.TrimPrefix(strings.Join(cells, "|"), "|"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the page says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		counts, err := run(page, chromedp.Evaluate[[]int](`["#fall .row", "svg.links path"].map(s => document.querySelectorAll(s).length)`))
		if spans := [][]int{{1, 0}, {6, 1}}; err != nil || !slices.Equal(counts, spans[min(1, len(stored[id])-1)]) {
			t.Errorf("of trace %s the waterfall has %d spans and lines between traces (%v)", id, counts, err)
		}
		if title, err := run(page, chromedp.Title()); err != nil || title != "jsource: from event to reconcile" {
			t.Errorf("the title is %q (%v)", title, err)
		}
		page.expectQuiet(t, base)
	}
}

// Without a trace the page searches.
func TestSearchInABrowser(t *testing.T) {
	base := serveTraces(t)
	page := open(t).blank(t)
	if err := page.openDrawn(base, results); err != nil {
		t.Fatal(err)
	}
	rows, err := run(page, chromedp.Evaluate[[][]string](`[...document.querySelectorAll("#main tr:has(td)")].map(r =>
		[...[...r.cells].slice(1, 4).map(c => c.innerText), r.querySelector("a").hash])`))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || !slices.Equal(rows[0], []string{"470 ms", "process kargo.promotionrequests", "ack", "#trace=" + first}) {
		t.Errorf("the search shows %q", rows)
	}
	page.expectQuiet(t, base)
}
