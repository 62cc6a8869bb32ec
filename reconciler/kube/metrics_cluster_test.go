package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/kube"
)

// scrape returns the series that a manager's metrics endpoint shows and that hold text.
func scrape(addr, text string) ([]string, error) {
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var series []string
	for line := range strings.Lines(string(body)) {
		if !strings.HasPrefix(line, "#") && strings.Contains(line, text) {
			series = append(series, line)
		}
	}
	return series, nil
}

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A manager's metrics endpoint shows the queues of this module's controllers as those of others, and case 25: however
// many requests there are, and whatever they were added with, there are no more series.
func TestMetrics_AManagerShowsTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	addr := freeAddress(t)
	mgr := w.manager("", func(o *manager.Options) { o.Metrics.BindAddress = addr })
	const ours, plain = "ours_on_the_endpoint", "TestMetrics_AManagerShowsTheQueue"
	failing := func(req string, n int) error {
		if n == 1 && strings.HasSuffix(req, "0") {
			return errTest // retries have a series of their own
		}
		return nil
	}
	var tries, plainTries attempts
	c, err := reconciler.New[string](ours).Watch(w.source()).Workers(4).
		Func(func(_ context.Context, req string) (reconciler.Result, error) {
			return reconciler.Result{}, failing(req, tries.add(req))
		})
	if err != nil {
		t.Fatal(err)
	}
	w.plain(mgr, w.source().Durable("plain"), plainOptions{}, func(_ context.Context, req string) (reconcile.Result, error) {
		return reconcile.Result{}, failing(req, plainTries.add(req))
	})
	r := w.run(mgr, kube.Runnable(c))

	settle := func(n int) {
		t.Helper()
		w.publish(numbered(fmt.Sprint("of ", n), n)...)
		w.settled()
		natstest.WaitSettled(t, w.js, widgetStream, "plain")
	}
	series := map[string]int{}
	count := func() {
		t.Helper()
		for _, name := range []string{ours, plain} {
			found, err := scrape(addr, name)
			if err != nil {
				t.Fatal(err)
			}
			if before, counted := series[name]; counted && len(found) != before {
				t.Errorf("%d series of %s, %d before", len(found), name, before)
			}
			series[name] = len(found)
		}
	}
	settle(10)
	natstest.Eventually(t, "the endpoint shows what was added", natstest.Patience, func() error {
		for _, name := range []string{ours, plain} {
			found, err := scrape(addr, "workqueue_adds_total{controller=\""+name+"\"")
			if err != nil {
				return err
			}
			if len(found) != 1 || strings.HasSuffix(strings.TrimSpace(found[0]), " 0") {
				return fmt.Errorf("%s: %v", name, found)
			}
		}
		return nil
	})
	for _, metric := range []string{"depth", "queue_duration_seconds_count", "work_duration_seconds_count", "retries_total"} {
		if found, err := scrape(addr, "workqueue_"+metric+`{controller="`+ours+`"`); err != nil || len(found) != 1 {
			t.Errorf("workqueue_%s: %v", metric, errors.Join(err, fmt.Errorf("%v", found)))
		}
	}
	count()
	settle(1000)
	count()
	r.stop()
}
