package jsource_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
)

// Case 27, in the process: a page for people, JSON for programs, and which request holds what, why.
func TestView(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const bad = `<script>alert("x")</script>`
	m := w.join(doing(always(bad, ending{err: errors.New("no <b>stock</b>")})))
	idle := jsource.Subject(w.srv.Conn(), widgets)
	view := jsource.View(m.source, idle)
	get := func(method, target, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, target, nil)
		r.Header.Set("Accept", accept)
		rec := httptest.NewRecorder()
		view.ServeHTTP(rec, r)
		return rec
	}
	w.publish("good", bad)
	m.waitAttempts(t, bad, 1)
	m.waitDone(t, "good")
	var list []jsource.SourceView
	natstest.Eventually(t, "both are shown", natstest.Patience, func() error {
		rec := get(http.MethodGet, "/", "application/json")
		if err := json.Unmarshal(rec.Body.Bytes(), &list); err != nil {
			return err
		}
		if len(list) != 2 || list[0].Reconciled != 1 || len(list[0].Holding) != 1 || list[0].Holding[0].Attempts == 0 {
			return errors.New(rec.Body.String())
		}
		return nil
	})
	if s := list[0]; s.Controller != keeper || s.Durable != widgetDurable || s.Stream != widgetStream || s.Held != 1 || s.Limit != 1000 ||
		s.Oldest == nil || s.Err != "" || s.Holding[0].Request != bad || s.Holding[0].LastErr != "no <b>stock</b>" {
		t.Errorf("the source is shown as %+v", s)
	}
	if s := list[1]; s.Err == "" || s.Held != 0 || s.Oldest != nil {
		t.Errorf("the one that was not started is shown as %+v", s)
	}

	rec := get(http.MethodGet, "/", "text/html")
	page := rec.Body.String()
	for _, want := range []string{keeper, widgetDurable, "&lt;script&gt;", "no &lt;b&gt;stock", "not healthy: the source was not started; another replica may lead"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "://") || !strings.Contains(rec.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the page is not safe: %v\n%s", rec.Header(), page)
	}
	if rec := get(http.MethodGet, "/?format=json", "text/html"); !json.Valid(rec.Body.Bytes()) {
		t.Errorf("asked for JSON: %s", rec.Body)
	}
	if rec := get(http.MethodPost, "/", ""); rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("a POST got %d", rec.Code)
	}
}
