package jsource_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/nats"
)

const (
	// heapTolerance is how far above its base the heap may be when all keys are settled, and one byte for
	// each key more. What stays by design is bounded: the verdicts of the last messages, 4 bytes for each above
	// the ack floor that the server last reported, and maps and lines that have grown to their usual size.
	heapTolerance = 256 << 10
	// heapKeys is how many keys the test sends through; the benchmark sends a million.
	heapKeys = 20_000
	heapAsk  = "heap.ask"
	heapGo   = "heap.go"
)

func init() { children["heap"] = heapChild }

// Case 26: keys that come and go, every other one with a failed attempt and a backoff, leave nothing
// behind: neither in the queue nor in the limiter, the tracker or the consumer.
func TestHeapIsBackToBase(t *testing.T) {
	t.Parallel()
	base, end := heapAfter(t, heapKeys)
	t.Logf("heap %d KiB, after %d keys %d KiB", base>>10, heapKeys, end>>10)
}

// BenchmarkMillionKeys is the same with a million keys each round, for which a test would take too long.
func BenchmarkMillionKeys(b *testing.B) {
	const keys = 1_000_000
	for b.Loop() {
		base, end := heapAfter(b, keys)
		b.ReportMetric(float64(base), "B-base")
		b.ReportMetric(float64(end), "B-end")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}

// heapAfter sends n keys through a controller in a process of its own, where the heap is nobody else's, and
// returns what is in use before and after. It fails if that does not come back to within the tolerance.
func heapAfter(tb testing.TB, n int) (base, end uint64) {
	tb.Helper()
	srv := natstest.Start(tb)
	js := srv.JetStream()
	p := natstest.Child(tb, "heap", childURL+"="+srv.URL())
	p.WaitLine("running")
	conn := srv.Conn()
	ask := func() uint64 { return askHeap(tb, conn) }
	const warm = 3 * consumer.DefaultMaxAckPending
	flood(tb, js, 0, warm)
	// What grows once, with the number of messages held, grows now: no attempt ends before all are.
	natstest.Until(tb, "as many are held as may be", natstest.Patience, func() bool {
		return natstest.ConsumerInfo(tb, js, widgetStream, widgetDurable).NumAckPending == consumer.DefaultMaxAckPending
	})
	if _, err := conn.Request(heapGo, nil, natstest.Patience); err != nil {
		tb.Fatal(err)
	}
	natstest.WaitSettled(tb, js, widgetStream, widgetDurable)
	base = ask()
	for done := warm; done < warm+n; {
		part := min(100_000, warm+n-done)
		flood(tb, js, done, part)
		done += part
		natstest.Eventually(tb, "the controller keeps up", 10*natstest.Patience, func() error {
			if info := natstest.ConsumerInfo(tb, js, widgetStream, widgetDurable); info.NumPending > 0 {
				return fmt.Errorf("%d pending", info.NumPending)
			}
			return nil
		})
	}
	natstest.WaitSettled(tb, js, widgetStream, widgetDurable)
	natstest.Eventually(tb, "the heap is back", natstest.Patience, func() error {
		if end = ask(); end > base+heapTolerance+uint64(n) {
			return fmt.Errorf("%d KiB in use, at the base %d", end>>10, base>>10)
		}
		return nil
	})
	p.Terminate()
	if err := p.Wait(); err != nil {
		tb.Errorf("the child ended with %v", err)
	}
	return base, end
}

// flood publishes n events of as many keys, numbered from from.
func flood(tb testing.TB, js jetstream.JetStream, from, n int) {
	tb.Helper()
	floodKeys(tb, js, from, n, from+n)
}

// floodKeys publishes n events, numbered from from, of so many keys in turn.
func floodKeys(tb testing.TB, js jetstream.JetStream, from, n, keys int) {
	tb.Helper()
	for i := from; i < from+n; i++ {
		e := nats.Event[string, widget]{Kind: nats.Created, Key: "key" + strconv.Itoa(i%keys), New: &widget{Version: i}}
		data, err := widgets.Encode(e)
		if err == nil {
			_, err = js.PublishAsync(widgets.SubjectOf(e.Kind), data, jetstream.WithStallWait(natstest.Patience))
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(natstest.Patience):
		tb.Fatal("the stream does not answer")
	}
}

// heapChild is a controller that says how much of its heap is in use.
func heapChild() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := runHeapChild(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runHeapChild(ctx context.Context) error {
	conn, err := natsgo.Connect(os.Getenv(childURL))
	if err != nil {
		return err
	}
	if err := tellHeap(conn); err != nil {
		return err
	}
	begin := make(chan struct{})
	_, err = conn.Subscribe(heapGo, func(m *natsgo.Msg) {
		close(begin)
		_ = m.Respond(nil)
	})
	if err != nil {
		return err
	}
	var failed sync.Map // keys that failed once
	running := make(chan struct{})
	c, err := reconciler.New[string](keeper).Workers(4).Logger(slog.New(slog.DiscardHandler)).
		Watch(jsource.Subject(conn, widgets), started(running)).
		Func(func(_ context.Context, key string) (res reconciler.Result, err error) {
			<-begin
			if key[len(key)-1]%2 == 0 {
				return res, nil
			}
			if _, again := failed.LoadAndDelete(key); !again {
				failed.Store(key, true)
				return res, errors.New("the first time")
			}
			return res, nil
		})
	if err != nil {
		return err
	}
	go func() {
		<-running
		fmt.Println("running")
	}()
	return c.Start(ctx)
}

// tellHeap answers how much of the heap is in use.
func tellHeap(conn *natsgo.Conn) error {
	_, err := conn.Subscribe(heapAsk, func(m *natsgo.Msg) {
		runtime.GC()
		runtime.GC() // the second frees what finalizers and pools held
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		_ = m.Respond(strconv.AppendUint(nil, stats.HeapAlloc, 10)) // no answer fails the test
	})
	return err
}

// askHeap asks a child how much of its heap is in use.
func askHeap(tb testing.TB, conn *natsgo.Conn) uint64 {
	tb.Helper()
	msg, err := conn.Request(heapAsk, nil, natstest.Patience)
	if err != nil {
		tb.Fatal(err)
	}
	heap, err := strconv.ParseUint(string(msg.Data), 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return heap
}
