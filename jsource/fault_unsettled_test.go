package jsource_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
)

const (
	// Bytes that each unsettled message may cost, with a key of its own: 64 MiB for 100,000. Of 20,000 each costs
	// more: maps and slices grow in steps, and what buffers keep for a while counts for more.
	unsettledEach    = 64 << 20 / 100_000
	unsettledEachFew = 1200
	// With a key that many share it costs no more than this: its part of the account and of the consumer.
	unsettledShared = 400
	unsettledHeld   = "unsettled.held"
	childAckWait    = "JSOURCE_TEST_ACKWAIT"
	childMost       = "JSOURCE_TEST_MAXACKPENDING"
)

func init() { children["unsettled"] = unsettledChild }

// Many unsettled messages cost little, and heartbeats keep all of them: for longer than an AckWait none is handed out
// again. The benchmark does the same with 100,000, for which the race detector leaves no time. (Half of what they cost
// goes to the keys that wait in the queue, and half of that is client-go's.)
func TestManyUnsettled(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes longer than an AckWait")
	}
	// Not parallel: it leaves no other test enough of the machine.
	unsettled(t, 20_000, 20_000, unsettledEachFew, 9*time.Second, 4)
}

// BenchmarkHundredThousandUnsettled holds 100,000 messages over four AckWaits, with a key each and with 1000 keys.
func BenchmarkHundredThousandUnsettled(b *testing.B) {
	const n = 100_000
	for keys, most := range map[int]int{n: unsettledEach, 1000: unsettledShared} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(float64(unsettled(b, n, keys, most, 15*time.Second, 12))/n, "B-each")
			}
		})
	}
}

// unsettled has a controller in a process of its own hold n messages of so many keys, at no more than most bytes each,
// for so many rounds of heartbeats, and returns what they cost.
func unsettled(tb testing.TB, n, keys, most int, ackWait time.Duration, rounds int64) (cost int64) {
	tb.Helper()
	srv := natstest.Start(tb)
	js := srv.JetStream()
	conn := srv.Conn()
	p := natstest.Child(tb, "unsettled", childURL+"="+srv.URL(), childAckWait+"="+ackWait.String(), childMost+"="+strconv.Itoa(n))
	p.WaitLine("running")
	base := askHeap(tb, conn)
	// A witness that keeps all it saw would be the largest part of this test.
	var beats, others atomic.Int64
	_, err := conn.Subscribe("$JS.ACK."+widgetStream+"."+widgetDurable+".>", func(m *natsgo.Msg) {
		if string(m.Data) == "+WPI" {
			beats.Add(1)
		} else {
			others.Add(1)
		}
	})
	if err != nil {
		tb.Fatal(err)
	}
	floodKeys(tb, js, 0, n, keys)
	natstest.Eventually(tb, "all are held", 2*natstest.Patience, func() error {
		msg, err := conn.Request(unsettledHeld, nil, natstest.Patience)
		if err == nil && string(msg.Data) != strconv.Itoa(n) {
			err = fmt.Errorf("%s are", msg.Data)
		}
		return err
	})
	cost = int64(askHeap(tb, conn) - base)
	tb.Logf("%d unsettled messages cost %d KiB, %d bytes each", n, cost>>10, cost/int64(n))
	if cost > int64(most)*int64(n) {
		tb.Errorf("that is more than %d bytes each", most)
	}
	from := beats.Load()
	natstest.Eventually(tb, "they are kept", natstest.Patience+time.Duration(rounds)*ackWait, func() error {
		if got := beats.Load() - from; got < rounds*int64(n) {
			return fmt.Errorf("%d heartbeats", got)
		}
		return nil
	})
	info := natstest.ConsumerInfo(tb, js, widgetStream, widgetDurable)
	if info.NumAckPending != n || info.NumRedelivered != 0 || info.Delivered.Consumer != uint64(n) {
		tb.Errorf("%d unsettled, %d redelivered, %d hand-outs in all", info.NumAckPending, info.NumRedelivered, info.Delivered.Consumer)
	}
	if got := others.Load(); got != 0 {
		tb.Errorf("%d settlements besides heartbeats", got)
	}
	p.Kill()
	_ = p.Wait() // it was killed
	return cost
}

// unsettledChild is a controller that settles nothing.
func unsettledChild() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := runUnsettledChild(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runUnsettledChild(ctx context.Context) error {
	conn, err := natsgo.Connect(os.Getenv(childURL))
	if err != nil {
		return err
	}
	if err := tellHeap(conn); err != nil {
		return err
	}
	ackWait, err := time.ParseDuration(os.Getenv(childAckWait))
	if err != nil {
		return err
	}
	most, err := strconv.Atoi(os.Getenv(childMost))
	if err != nil {
		return err
	}
	src := jsource.Subject(conn, widgets).MaxAckPending(most).AckWait(ackWait)
	_, err = conn.Subscribe(unsettledHeld, func(m *natsgo.Msg) {
		_ = m.Respond([]byte(strconv.Itoa(src.Status(0).Held))) // no answer fails the test
	})
	if err != nil {
		return err
	}
	running := make(chan struct{})
	c, err := reconciler.New[string](keeper).Logger(slog.New(slog.DiscardHandler)).
		Watch(src, started(running)).
		Func(func(ctx context.Context, _ string) (res reconciler.Result, err error) {
			<-ctx.Done()
			return res, context.Cause(ctx)
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
