package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

func TestMain(m *testing.M) { natstest.Main(m, nil) }

type order struct {
	Phase string `json:"phase"`
}

var orders = nats.NewTopic[string, order]("shop.orders")

// shop is a server with a controller on it, for which orders are hopeless until it is mended.
type shop struct {
	t      *testing.T
	srv    *natstest.Server
	mended atomic.Bool
}

// open starts the shop, and makes commands connect to it as the nats command would.
func open(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, srv: natstest.Start(t)}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // nobody's contexts
	t.Setenv("HOME", t.TempDir())
	t.Setenv("NATS_URL", s.srv.URL())
	c, err := reconciler.New[string]("clerk").Watch(jsource.Subject(s.srv.Conn(), orders)).Workers(2).
		Func(func(_ context.Context, req string) (reconciler.Result, error) {
			switch {
			case s.mended.Load():
				return reconciler.Result{}, nil
			case req == "slow":
				return reconciler.Result{}, errors.New("the till is busy")
			default:
				return reconciler.Result{}, reconciler.TerminalError(fmt.Errorf("no such order\x1b[31m %s", req))
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// publish publishes orders, and waits until n of them are settled.
func (s *shop) publish(settled int, keys ...string) {
	s.t.Helper()
	pub, err := jsource.NewPublisher(s.srv.Conn())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, key := range keys {
		if _, err := jsource.PublishCreated(s.t.Context(), pub, orders, key, order{"new"}); err != nil {
			s.t.Fatal(err)
		}
	}
	natstest.Eventually(s.t, fmt.Sprintf("%d orders settled", settled), natstest.Patience, func() error {
		info := natstest.ConsumerInfo(s.t, s.srv.JetStream(), "shop_orders", "clerk-shop_orders")
		if left := len(keys) - settled; info.NumPending != 0 || info.NumAckPending != left || info.Delivered.Stream < uint64(len(keys)) {
			return fmt.Errorf("%d unsettled, want %d", info.NumAckPending, left)
		}
		return nil
	})
}

// run runs a command and returns what it prints.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errOut bytes.Buffer
	err := command(&out, &errOut).Run(t.Context(), append([]string{"jsource"}, args...))
	t.Logf("jsource %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), errOut.String())
	return out.String(), err
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(t, args...)
	if err != nil {
		t.Fatalf("jsource %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func expect(t *testing.T, out string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(out) {
			t.Errorf("there is no %q in:\n%s", p, out)
		}
	}
}

func TestDead(t *testing.T) {
	s := open(t)
	if out := mustRun(t, "dead", "list"); out != "No dead letters.\n" {
		t.Errorf("before anything died: %q", out)
	}
	s.publish(3, "a", "b", "c")
	out := mustRun(t, "dead", "list")
	expect(t, out, `^ID +AGE +DURABLE +SUBJECT +REASON +REQUEST +ERROR$`,
		`^shop_orders-dead/1 +\S+ +clerk-shop_orders +shop.orders.created +terminal +a +terminal error: no such order \[31m a$`)
	if n := strings.Count(out, "\n"); n != 4 {
		t.Errorf("%d lines:\n%s", n, out)
	}

	out = mustRun(t, "dead", "show", "shop_orders-dead/1")
	expect(t, out, `^ID: +shop_orders-dead/1$`, `^Original: +sequence 1 of stream shop_orders, on shop.orders.created$`,
		`^Reason: +terminal$`, `^Request: +a$`, `^Attempts: +1$`, `"kind":"created","key":"a"`, `^Header: +Nats-Msg-Id: "`)

	var letter shown
	if err := json.Unmarshal([]byte(mustRun(t, "-o", "json", "dead", "show", "shop_orders-dead/2")), &letter); err != nil {
		t.Fatal(err)
	}
	if letter.ID != "shop_orders-dead/2" || letter.Request != "b" || !strings.Contains(string(letter.Payload), `"b"`) {
		t.Errorf("as JSON: %+v", letter)
	}

	expect(t, mustRun(t, "dead", "drop", "shop_orders-dead/2"), `^shop_orders-dead/2: dropped$`, `^1 dropped, 0 failed$`)
	if _, err := run(t, "dead", "show", "shop_orders-dead/2"); !errors.Is(err, jsource.ErrLetterNotFound) {
		t.Errorf("after it was dropped: %v", err)
	}
	if out := mustRun(t, "dead", "list", "--reason", "attempts"); out != "No dead letters.\n" {
		t.Errorf("with a filter: %q", out)
	}

	s.mended.Store(true)
	// What fails does not keep the rest from being done.
	out, err := run(t, "dead", "replay", "shop_orders-dead/2", "shop_orders-dead/1")
	if !errors.Is(err, jsource.ErrLetterNotFound) {
		t.Errorf("replaying one that is gone: %v", err)
	}
	expect(t, out, `^shop_orders-dead/1: replayed, as sequence 4 of stream shop_orders$`, `^1 replayed, 1 failed$`)
	expect(t, mustRun(t, "dead", "replay", "--all", "--durable", "clerk-shop_orders"),
		`^shop_orders-dead/3: replayed, as sequence 5 of stream shop_orders$`, `^1 replayed, 0 failed$`)
	natstest.WaitSettled(t, s.srv.JetStream(), "shop_orders", "clerk-shop_orders")
	if out := mustRun(t, "dead", "list"); out != "No dead letters.\n" {
		t.Errorf("after all were replayed: %q", out)
	}
}

func TestStatus(t *testing.T) {
	s := open(t)
	s.publish(1, "slow", "a")
	line := `^shop_orders +clerk-shop_orders +0 +1 +0 +\S+s +1 +1$`
	out := mustRun(t, "status")
	expect(t, out, `^STREAM +DURABLE +PENDING +UNSETTLED +REDELIVERED +OLDEST +DEAD +REPLICAS$`, line,
		fmt.Sprintf(`^clerk-shop_orders on \S+, process %d, holds 1 messages$`, os.Getpid()),
		`^  slow +1 +\S+s +\d+ +(true|false) +the till is busy$`)
	expect(t, mustRun(t, "status", "shop_orders", "clerk-shop_orders"), line)
	var reports []jsource.Report
	for _, args := range [][]string{{"-o", "json", "status"}, {"status", "--output=json"}} {
		reports = nil
		if err := json.Unmarshal([]byte(mustRun(t, args...)), &reports); err != nil {
			t.Fatal(err)
		}
	}
	if len(reports) != 1 || reports[0].Unsettled != 1 || reports[0].Replicas[0].Holding[0].LastErr != "the till is busy" {
		t.Errorf("as JSON: %+v", reports)
	}
	s.mended.Store(true)
}

func TestNothingThere(t *testing.T) {
	srv := natstest.Start(t)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("NATS_URL", srv.URL())
	expect(t, mustRun(t, "status"), "^No durable of a source")
	expect(t, mustRun(t, "dead", "list"), "^No dead letters")
}

func TestMistakes(t *testing.T) {
	srv := natstest.Start(t)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("NATS_URL", srv.URL())
	for _, tc := range []struct{ args, want string }{
		{"status one", "no arguments, or a stream and a durable"},
		{"status one two", `durable "two" of stream "one"`},
		{"dead list x", "takes no arguments"},
		{"dead show", "give the IDs"},
		{"dead drop", "give the IDs"},
		{"dead drop --all x", "not both"},
		{"dead drop --durable d x/1", "filters go with --all"},
		{"dead show nonsense", "no such dead letter"},
		{"-o yaml status", "table or json"},
		{"dead list --reason bogus", "should be undecodable, terminal"},
		{"--context missing status", "missing"},
		{"--server nats://127.0.0.1:1 status", "connecting to nats://127.0.0.1:1"},
	} {
		if _, err := run(t, strings.Fields(tc.args)...); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.args, err, tc.want)
		}
	}
}

// A context of the nats command says where the server is, and the environment which context; flags go first.
func TestContextOfTheNATSCommand(t *testing.T) {
	srv := natstest.Start(t)
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	dir := filepath.Join(home, "nats", "context")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{"here": srv.URL(), "away": "nats://127.0.0.1:1"} {
		data := fmt.Sprintf(`{"description":"","url":%q}`, url)
		if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, "--context", "here", "status")
	t.Setenv("NATS_CONTEXT", "here")
	mustRun(t, "status")
	if _, err := run(t, "--context", "away", "status"); !errors.Is(err, natsgo.ErrNoServers) {
		t.Errorf("a context elsewhere: %v", err)
	}
	mustRun(t, "--context", "away", "--server", srv.URL(), "status")
}
