package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// errNoTrace means that Jaeger has none that is asked for.
var errNoTrace = errors.New("jaeger has no such trace")

// get asks Jaeger's HTTP API and gives what it answers to read.
func (j *jaeger) get(ctx context.Context, path string, query url.Values, read func(io.Reader) error) error {
	address := j.url + path + "?" + query.Encode()
	fail := func(err error) error { return fmt.Errorf("asking Jaeger (GET %s): %w", address, err) }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fail(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		if err := read(resp.Body); err != nil {
			return fail(err)
		}
		return nil
	case http.StatusNotFound:
		return fail(errNoTrace)
	default:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return fail(fmt.Errorf("%s: %s", resp.Status, text))
	}
}

// services lists the services that Jaeger has spans of.
func (j *jaeger) services(ctx context.Context) ([]string, error) {
	var answer struct{ Services []string }
	err := j.get(ctx, "/api/v3/services", nil, func(r io.Reader) error { return json.NewDecoder(r).Decode(&answer) })
	return answer.Services, err
}

// trace returns the spans of one trace.
func (j *jaeger) trace(ctx context.Context, id string) (spans []*span, err error) {
	err = j.get(ctx, "/api/v3/traces/"+id, url.Values{"raw_traces": {"true"}}, func(r io.Reader) error {
		spans, err = readSpans(r)
		return err
	})
	return spans, err
}

// A search is for traces with a span of that service and name that began between from and to.
type search struct {
	service, name string
	from, to      time.Time
}

// sliceOf is how much time one question covers, so that no answer becomes huge.
const sliceOf = 2 * time.Second

// mostTraces bounds the answer to one question.
const mostTraces = 5000

// find returns every span of the traces that s finds.
func (j *jaeger) find(ctx context.Context, s search) ([]*span, error) {
	seen := map[ref]bool{}
	var all []*span
	for from := s.from; from.Before(s.to); from = from.Add(sliceOf) {
		to := from.Add(sliceOf)
		if to.After(s.to) {
			to = s.to
		}
		err := j.get(ctx, "/api/v3/traces", url.Values{
			"query.service_name":   {s.service},
			"query.operation_name": {s.name},
			"query.start_time_min": {from.UTC().Format(time.RFC3339Nano)},
			"query.start_time_max": {to.UTC().Format(time.RFC3339Nano)},
			"query.num_traces":     {strconv.Itoa(mostTraces)},
			"query.raw_traces":     {"true"}, // as they were sent
		}, func(r io.Reader) error {
			spans, err := readSpans(r)
			for _, found := range spans {
				if !seen[found.ref] {
					seen[found.ref] = true
					all = append(all, found)
				}
			}
			return err
		})
		if err != nil && !errors.Is(err, errNoTrace) {
			return nil, err
		}
	}
	return all, nil
}
