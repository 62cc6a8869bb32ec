package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
)

// A ref names a span.
type ref struct {
	Trace string `json:"traceId"`
	Span  string `json:"spanId"`
}

// span is one as Jaeger's API tells it.
type span struct {
	ref
	parent     string // span id, "" for a root
	service    string
	name       string
	start, end time.Time
	attrs      map[string]string
	links      []ref
	failed     bool // error status,
	message    string
	exceptions []string // messages of the errors that were recorded
}

func (s *span) linksTo(r ref) bool {
	for _, l := range s.links {
		if l == r {
			return true
		}
	}
	return false
}

// number is an attribute that is one, 0 if the span has it not.
func (s *span) number(key string) int {
	n, _ := strconv.Atoi(s.attrs[key])
	return n
}

// The JSON of OTLP, as far as it is needed.
type (
	otlpAttribute struct {
		Key   string
		Value map[string]any
	}
	otlpSpan struct {
		ref
		ParentSpanID      string
		Name              string
		StartTimeUnixNano string
		EndTimeUnixNano   string
		Attributes        []otlpAttribute
		Links             []ref
		Events            []struct {
			Name       string
			Attributes []otlpAttribute
		}
		Status struct {
			Code    any // a number, or a name in older versions
			Message string
		}
	}
	otlpTraces struct {
		Result struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes []otlpAttribute }
				ScopeSpans []struct{ Spans []otlpSpan }
			}
		}
	}
)

func attributesOf(list []otlpAttribute) map[string]string {
	attrs := make(map[string]string, len(list))
	for _, a := range list {
		for _, v := range a.Value { // there is one: stringValue, intValue (a string as well), ...
			attrs[a.Key] = fmt.Sprint(v)
		}
	}
	return attrs
}

func timeOf(nanoseconds string) time.Time {
	n, _ := strconv.ParseInt(nanoseconds, 10, 64)
	return time.Unix(0, n)
}

// readSpans reads an answer of the API, each span once.
func readSpans(r io.Reader) ([]*span, error) {
	var traces otlpTraces
	if err := json.NewDecoder(r).Decode(&traces); err != nil {
		return nil, err
	}
	var spans []*span
	seen := map[ref]bool{}
	for _, resource := range traces.Result.ResourceSpans {
		service := attributesOf(resource.Resource.Attributes)["service.name"]
		for _, scope := range resource.ScopeSpans {
			for i := range scope.Spans {
				o := &scope.Spans[i]
				if !seen[o.ref] {
					seen[o.ref] = true
					spans = append(spans, o.span(service))
				}
			}
		}
	}
	return spans, nil
}

func (o *otlpSpan) span(service string) *span {
	code := fmt.Sprint(o.Status.Code)
	s := &span{
		ref: o.ref, parent: o.ParentSpanID, service: service, name: o.Name,
		start: timeOf(o.StartTimeUnixNano), end: timeOf(o.EndTimeUnixNano),
		attrs: attributesOf(o.Attributes), links: o.Links,
		failed: code == "2" || code == "STATUS_CODE_ERROR", message: o.Status.Message,
	}
	for _, e := range o.Events {
		if e.Name == "exception" {
			s.exceptions = append(s.exceptions, attributesOf(e.Attributes)["exception.message"])
		}
	}
	return s
}
