package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
)

// asExample makes the test binary the example: with it, this program and the controller it starts run with the race
// detector whenever the test does.
const asExample = "JSOURCE_JAEGER_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asExample) != "" {
		os.Exit(run(os.Args[1:]))
	}
	code := m.Run()
	if err := stopTestJaeger(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// One Jaeger serves all tests: each has a service of its own.
var (
	testJaegerDir string
	testJaeger    = sync.OnceValues(func() (*jaeger, error) {
		var err error
		if testJaegerDir, err = os.MkdirTemp("", "jsource-jaeger-test-"); err != nil {
			return nil, err
		}
		return startJaeger(context.Background(), testJaegerDir)
	})
)

func stopTestJaeger() error {
	if testJaegerDir == "" {
		return nil
	}
	var err error
	if j, started := testJaeger(); started == nil {
		err = j.close()
	}
	return errors.Join(err, os.RemoveAll(testJaegerDir))
}

// world is a NATS server, a controller and a publisher in this process, whose spans go to Jaeger. The tracer provider is
// the process's: tests that have a world do not run in parallel.
type world struct {
	*testing.T
	jaeger   *jaeger
	service  string
	provider *sdktrace.TracerProvider
	broker   *broker
	load     *load
	source   *jsource.Source[int, promotionRequest, string]
	sent     int
}

func newWorld(t *testing.T, reconcile reconciler.Func[string], more ...reconciler.Source[string]) *world {
	t.Helper()
	w := &world{T: t, service: strings.ToLower(t.Name())}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	w.jaeger, err = testJaeger()
	must(err)
	before := otel.GetTracerProvider()
	w.provider, err = setUpTracing(t.Context(), w.service, w.jaeger.otlp)
	must(err)
	t.Cleanup(func() {
		otel.SetTracerProvider(before)
		if err := shutDown(context.Background(), w.provider); err != nil {
			t.Error(err)
		}
	})
	w.broker, err = startBroker(filepath.Join(t.TempDir(), "nats"))
	must(err)
	t.Cleanup(w.broker.close)
	w.load, err = newLoad(w.broker.conn)
	must(err)
	w.source = jsource.Mapped(w.broker.conn, promotionRequests, stageOf)
	c, err := reconciler.New[string](controllerName).Watch(w.source).Watch(more...).
		Logger(slog.New(slog.DiscardHandler)).Func(reconcile)
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// wait waits for what is said.
func (w *world) wait(what string, is func(context.Context) (bool, error)) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := poll(ctx, "waiting until "+what, func() (bool, error) { return is(ctx) }); err != nil {
		w.Fatal(err)
	}
}

// publish publishes a PromotionRequest of that Stage in a trace of its own, unless ctx is in one, and returns the trace's id.
func (w *world) publish(ctx context.Context, stage string) string {
	w.Helper()
	w.sent++
	if !trace.SpanContextFromContext(ctx).IsValid() {
		var span trace.Span
		ctx, span = otel.Tracer("test").Start(ctx, "POST /promotionrequests")
		defer span.End()
	}
	if err := w.load.publish(ctx, w.sent, promotionRequest{Stage: stage}); err != nil {
		w.Fatal(err)
	}
	return trace.SpanContextFromContext(ctx).TraceID().String()
}

// settled waits until the server says that every message is.
func (w *world) settled() {
	w.Helper()
	w.wait("every message is settled", func(ctx context.Context) (bool, error) {
		c, err := w.broker.counts(ctx)
		return c == counts{}, err
	})
}

// trace waits until Jaeger has n spans of that name in the trace, and returns all of the trace's.
func (w *world) trace(id, name string, n int) []*span {
	w.Helper()
	var spans []*span
	w.wait(fmt.Sprintf("trace %s has %d spans %q", id, n, name), func(ctx context.Context) (bool, error) {
		if err := w.provider.ForceFlush(ctx); err != nil {
			return false, err
		}
		var err error
		if spans, err = w.jaeger.trace(ctx, id); err != nil && !errors.Is(err, errNoTrace) {
			return false, err
		}
		return len(named(spans, name)) == n, nil
	})
	return spans
}

func named(spans []*span, name string) []*span {
	var found []*span
	for _, s := range spans {
		if s.name == name {
			found = append(found, s)
		}
	}
	return found
}

func (w *world) expect(s *span, attrs map[string]string) {
	w.Helper()
	for key, want := range attrs {
		if got := s.attrs[key]; got != want {
			w.Errorf("%q: %s is %q, want %q", s.name, key, got, want)
		}
	}
}

// expectError checks that s has failed with an error that says so, and that it was recorded.
func (w *world) expectError(s *span, says string) {
	w.Helper()
	if !s.failed || !strings.Contains(s.message, says) {
		w.Errorf("%q: failed %v, %q, want an error that says %q", s.name, s.failed, s.message, says)
	}
	if len(s.exceptions) != 1 || !strings.Contains(s.exceptions[0], says) {
		w.Errorf("%q: recorded errors %q, want one that says %q", s.name, s.exceptions, says)
	}
}
