package jsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
)

// What a child process needs to know.
const (
	childURL  = "CRASH_URL"
	childWait = "CRASH_ACK_WAIT"
	childName = "CRASH_NAME"
)

func init() { children["keeper"] = keeperChild }

// The subjects on which children talk to the test: they ask for a row at the beginning of an attempt, are told
// what to do with it, and report the end.
const (
	rowBegin = "rows.begin"
	rowEnd   = "rows.end"
)

// report is what a child says of one attempt.
type report struct {
	Replica string    `json:"replica"`
	Attempt int       `json:"attempt"` // of this replica
	Key     string    `json:"key"`
	Began   time.Time `json:"began"`
	Err     string    `json:"err,omitempty"` // in the end
}

// order is what the test answers to the beginning of an attempt.
type order struct {
	Version int           `json:"version"`        // of the row
	Work    time.Duration `json:"work"`           // how long the attempt takes
	Fail    bool          `json:"fail,omitempty"` // it fails
	Hang    bool          `json:"hang,omitempty"` // it goes on until it is cancelled
	// Unfinished: the attempt says that the work goes on elsewhere.
	Unfinished bool `json:"unfinished,omitempty"`
}

// keeperChild is one replica of the controller in a process of its own. It stops cleanly on SIGTERM.
func keeperChild() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	conn, err := natsgo.Connect(os.Getenv(childURL), natsgo.MaxReconnects(-1), natsgo.ReconnectWait(20*time.Millisecond))
	if err != nil {
		log.Error("connecting", "error", err)
		os.Exit(1)
	}
	ackWait, err := time.ParseDuration(os.Getenv(childWait))
	if err != nil {
		log.Error("configuration", "error", err)
		os.Exit(1)
	}
	var (
		mu sync.Mutex
		n  int
	)
	reconcile := func(ctx context.Context, key string) (reconciler.Result, error) {
		mu.Lock()
		n++
		r := report{Replica: os.Getenv(childName), Attempt: n, Key: key, Began: time.Now()}
		mu.Unlock()
		res, err := obey(ctx, conn, r)
		if err != nil {
			r.Err = err.Error()
		} else if res.Unfinished {
			r.Err = "unfinished"
		}
		// On the connection that also carries the ack, and before it.
		data, _ := json.Marshal(r)
		if perr := conn.Publish(rowEnd, data); perr != nil {
			return res, perr
		}
		return res, err
	}
	running := make(chan struct{})
	c, err := reconciler.New[string](keeper).Workers(2).Grace(2*time.Second).Logger(log).
		Watch(jsource.Subject(conn, widgets).AckWait(ackWait), started(running)).Func(reconcile)
	if err != nil {
		log.Error("building", "error", err)
		os.Exit(1)
	}
	go func() {
		<-running
		fmt.Println("running")
	}()
	if err := c.Start(ctx); err != nil {
		log.Error("stopping", "error", err)
		os.Exit(1)
	}
}

// obey reads the row, works on it, and ends as it is told.
func obey(ctx context.Context, conn *natsgo.Conn, r report) (res reconciler.Result, err error) {
	data, err := json.Marshal(r)
	if err != nil {
		return res, err
	}
	asking, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	msg, err := conn.RequestWithContext(asking, rowBegin, data)
	if err != nil {
		return res, err
	}
	var o order
	if err := json.Unmarshal(msg.Data, &o); err != nil {
		return res, err
	}
	if o.Hang {
		o.Work = time.Hour
	}
	select {
	case <-time.After(o.Work):
	case <-ctx.Done():
		return res, ctx.Err()
	}
	if o.Fail {
		return res, errors.New("told to fail")
	}
	if o.Unfinished {
		return reconciler.Result{Unfinished: true, RequeueAfter: time.Hour}, nil
	}
	return res, nil
}

// rows is the test's side: the table of rows, and what the children reported.
type rows struct {
	tb     testing.TB
	orders func(key string) order // what is to be done; nil: at once

	mu       sync.Mutex
	versions map[string]int
	begun    []childAttempt
	index    map[string]int // of begun, by replica and attempt
}

// childAttempt is an attempt in a child.
type childAttempt struct {
	report
	version int // of the row that it saw
	done    bool
}

// newRows answers the children on a connection of its own.
func newRows(tb testing.TB, w *world, orders func(key string) order) *rows {
	tb.Helper()
	r := &rows{tb: tb, orders: orders, versions: map[string]int{}, index: map[string]int{}}
	conn := w.srv.Conn()
	for subject, handle := range map[string]func(*natsgo.Msg, report){rowBegin: r.begin, rowEnd: r.end} {
		sub, err := conn.Subscribe(subject, func(m *natsgo.Msg) {
			var rep report
			if err := json.Unmarshal(m.Data, &rep); err != nil {
				tb.Error(err)
				return
			}
			handle(m, rep)
		})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = sub.Unsubscribe() }) // a closed connection is as good
	}
	if err := conn.FlushTimeout(natstest.Patience); err != nil {
		tb.Fatal(err)
	}
	return r
}

func (r *rows) begin(m *natsgo.Msg, rep report) {
	r.mu.Lock()
	var o order
	if r.orders != nil {
		o = r.orders(rep.Key)
	}
	o.Version = r.versions[rep.Key]
	r.index[rep.Replica+"/"+strconv.Itoa(rep.Attempt)] = len(r.begun)
	r.begun = append(r.begun, childAttempt{report: rep, version: o.Version})
	r.mu.Unlock()
	data, err := json.Marshal(o)
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		r.tb.Errorf("answering a child: %v", err)
	}
}

func (r *rows) end(_ *natsgo.Msg, rep report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i, known := r.index[rep.Replica+"/"+strconv.Itoa(rep.Attempt)]; known {
		r.begun[i].Err, r.begun[i].done = rep.Err, true
	}
}

// commit changes a row and returns its new version.
func (r *rows) commit(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[key]++
	return r.versions[key]
}

func (r *rows) all() []childAttempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.begun)
}

// waitBegun waits until attempts have begun on each of the keys, by the replica or, with "", by any.
func (r *rows) waitBegun(replica string, keys ...string) {
	r.tb.Helper()
	natstest.Eventually(r.tb, "attempts in child processes", natstest.Patience, func() error {
		have := map[string]int{}
		for _, a := range r.all() {
			if replica == "" || a.Replica == replica {
				have[a.Key]++
			}
		}
		return missing(have, keys)
	})
}

// child starts a replica in a process of its own.
func (w *world) child(name string, ackWait time.Duration) *natstest.Process {
	w.tb.Helper()
	return natstest.Child(w.tb, "keeper", childURL+"="+w.srv.URL(), childWait+"="+ackWait.String(), childName+"="+name)
}

// seeded is a source of randomness whose seed can be chosen with JSOURCE_SEED and is logged.
func seeded(tb testing.TB) *rand.Rand {
	tb.Helper()
	seed := uint64(1)
	if s, ok := os.LookupEnv("JSOURCE_SEED"); ok {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			tb.Fatalf("JSOURCE_SEED: %v", err)
		}
	}
	tb.Logf("JSOURCE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
