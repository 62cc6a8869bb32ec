package jsource_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
)

// admin looks after the world from a connection of its own, as another process would.
func (w *world) admin() *jsource.Admin {
	w.tb.Helper()
	a, err := jsource.NewAdmin(w.srv.Conn())
	if err != nil {
		w.tb.Fatal(err)
	}
	return a
}

func (w *world) report(a *jsource.Admin, stream, durable string) jsource.Report {
	w.tb.Helper()
	r, err := a.Report(w.tb.Context(), stream, durable)
	if err != nil {
		w.tb.Fatal(err)
	}
	return r
}

// Case 27: from another process one sees which requests hold what is unsettled, since when and why, in each
// replica.
func TestReportNamesWhatHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := time.Now()
	failing := w.join(workers(2), doing(always("bad", ending{err: errTest})), holding("good"))
	w.publish("bad", "good")
	failing.waitAttempts(t, "bad", 2)
	failing.waitBegun(t, "good")
	a := w.admin()
	var r jsource.Report
	natstest.Eventually(t, "the report names both", natstest.Patience, func() error {
		if r = w.report(a, widgetStream, widgetDurable); len(r.Replicas) != 1 || len(r.Replicas[0].Holding) != 2 {
			return fmt.Errorf("it says %+v", r)
		}
		return nil
	})
	stored := w.mustStream(widgetStream)
	first, err := stored.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if r.Controller != keeper || r.Topic != "shop.widgets" || r.Unsettled != 2 || r.Pending != 0 || !r.Oldest.Equal(first.Time) || r.Dead != 0 {
		t.Errorf("the server's part is %+v", r)
	}
	replica := r.Replicas[0]
	if replica.Held != 2 || replica.Err != "" || replica.PID == 0 {
		t.Errorf("the replica's part is %+v", replica)
	}
	bad := replica.Holding[0]
	if bad.Request != "bad" || bad.Messages != 1 || bad.Attempts < 1 || bad.LastErr != errTest.Error() || bad.Since.Before(began) {
		t.Errorf("of the one that fails it says %+v", bad)
	}
	if good := replica.Holding[1]; good.Request != "good" || !good.Running || good.LastErr != "" {
		t.Errorf("of the one that runs it says %+v", good)
	}

	other := w.join(through(w.srv.Conn()))
	natstest.Eventually(t, "both replicas answer", natstest.Patience, func() error {
		if r = w.report(a, widgetStream, widgetDurable); len(r.Replicas) != 2 {
			return fmt.Errorf("%d do", len(r.Replicas))
		}
		return nil
	})
	other.stop()
	other.wait()
	if r = w.report(a, widgetStream, widgetDurable); len(r.Replicas) != 1 {
		t.Errorf("after one has stopped, %d replicas answer", len(r.Replicas))
	}
	failing.release("good")
}

// Every durable that a source made is reported, and no other; with and without replicas that run.
func TestReportsOfAllDurables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.join()
	w.join(withSource(func(s *widgetSource) { s.PerReplica("b-1") }))
	if _, err := w.js.CreateConsumer(t.Context(), widgetStream, jetstream.ConsumerConfig{Durable: "stranger"}); err != nil {
		t.Fatal(err)
	}
	m.stop()
	m.wait()
	w.publish("a", "b")
	list, err := w.admin().Reports(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range list {
		names = append(names, fmt.Sprintf("%s/%s of %s, %d replicas", r.Stream, r.Durable, r.Topic, len(r.Replicas)))
	}
	want := []string{
		"shop_widgets/keeper-shop_widgets of shop.widgets, 0 replicas",
		"shop_widgets/keeper-shop_widgets@b-1 of shop.widgets, 1 replicas",
	}
	if !slices.Equal(names, want) {
		t.Errorf("reported are %q", names)
	}
	if list[0].Pending != 2 || list[0].Oldest.IsZero() {
		t.Errorf("of the one that nobody consumes it says %+v", list[0])
	}
	_, err = w.admin().Report(t.Context(), widgetStream, "nobody")
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("of one that does not exist: %v", err)
	}
}

// A stream that stores the question too says so, and that is no replica's answer.
func TestReportBesideAStreamOfQuestions(t *testing.T) {
	t.Parallel()
	w := newUnwatched(t)
	if _, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ALL", Subjects: []string{"jsource.status.>"}}); err != nil {
		t.Fatal(err)
	}
	w.join()
	list, err := w.admin().Reports(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || len(list[0].Replicas) != 1 {
		t.Errorf("it says %+v", list)
	}
}
