package jsource

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Viewed is a [Source] of any type.
type Viewed interface{ view() SourceView }

// SourceView is what a view says of one source.
type SourceView struct {
	Source      string        `json:"source"`
	Controller  string        `json:"controller"`
	Stream      string        `json:"stream"`
	Durable     string        `json:"durable"`
	Err         string        `json:"error,omitempty"` // what is wrong; "" if it is consuming
	AckFloor    uint64        `json:"ackFloor"`        // stream sequence up to which all is settled
	Pending     uint64        `json:"pending"`         // not handed out yet, when the server was last asked
	Unsettled   int           `json:"unsettled"`       // in all replicas together, when the server was last asked
	Held        int           `json:"held"`            // by this process
	Limit       int           `json:"limit"`           // MaxAckPending
	Oldest      *time.Time    `json:"oldest"`          // when the oldest message held was stored; null: none is
	Reconciled  uint64        `json:"reconciled"`      // events settled because they were reconciled
	Rate        float64       `json:"rate"`            // of those, a second, since the view was last asked for
	Longest     time.Duration `json:"longest"`         // ns: the longest from stored to reconciled
	Redelivered uint64        `json:"redelivered"`     // deliveries with a count above 1
	Dead        uint64        `json:"dead"`            // dead letters stored by this process
	Holding     []Held        `json:"holding"`
}

// viewLimit is how many requests a view names for each source.
const viewLimit = 50

// View is a handler that shows, live, how sources are doing and which requests hold their messages: a page for people;
// JSON for programs that accept it or ask with ?format=json. It is mounted by whoever wants it:
//
//	mux.Handle("/debug/jsource", jsource.View(orders, targets))
//
// It only reads, and shows no payload; requests, which are keys, and errors it does show.
func View(sources ...Viewed) http.Handler {
	return &view{sources: sources, seen: make([]seen, len(sources))}
}

type view struct {
	sources []Viewed

	mu   sync.Mutex
	seen []seen
}

// seen is what was shown last of a source, for its rate.
type seen struct {
	at         time.Time
	reconciled uint64
	rate       float64
}

//go:embed view.html
var viewPage string

var viewTemplate = template.Must(template.New("view").Funcs(template.FuncMap{
	"age":   func(at time.Time) time.Duration { return time.Since(at).Round(time.Millisecond) },
	"round": func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) },
}).Parse(viewPage))

// ServeHTTP implements [http.Handler].
func (v *view) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "it only reads: use GET", http.StatusMethodNotAllowed)
		return
	}
	list := v.look()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.FormValue("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(list) // whoever asked is gone
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_ = viewTemplate.Execute(w, list) // whoever asked is gone
}

// look asks every source.
func (v *view) look() []SourceView {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	list := make([]SourceView, len(v.sources))
	for i, src := range v.sources {
		list[i] = src.view()
		s := &v.seen[i]
		if took := now.Sub(s.at).Seconds(); !s.at.IsZero() && took >= 1 {
			s.rate = float64(list[i].Reconciled-s.reconciled) / took
		}
		if s.at.IsZero() || now.Sub(s.at) >= time.Second {
			s.at, s.reconciled = now, list[i].Reconciled
		}
		list[i].Rate = s.rate
	}
	return list
}

func (s *Source[K, T, request]) view() SourceView {
	st := s.Status(viewLimit)
	v := SourceView{
		Source: s.String(), Stream: st.Stream, Durable: st.Durable, Err: plain(st.Err), AckFloor: st.AckFloor, Pending: st.Pending,
		Unsettled: st.AckPending, Held: st.Held, Limit: st.MaxAckPending, Reconciled: st.Reconciled, Longest: st.Longest,
		Redelivered: st.Counts.Redelivered, Dead: st.Buried, Holding: held(st.Holding),
	}
	if !st.Oldest.IsZero() {
		v.Oldest = &st.Oldest
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		v.Controller = s.run.controller
	}
	return v
}

// held is what holds messages, as it is told to others.
func held[request comparable](holding []Hold[request]) []Held {
	list := []Held{}
	for _, h := range holding {
		list = append(list, Held{
			Request: clean(fmt.Sprint(h.Request), maxErrorText), Messages: h.Messages, Since: h.Since,
			Attempts: h.Attempts, LastErr: plain(h.LastErr), Running: h.Running,
		})
	}
	return list
}
