package jsource_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
)

const crashAckWait = 500 * time.Millisecond

// T2: kill -9 at any moment loses nothing. Each replica is a process of its own, killed at random moments of
// its life while events are published, and started again. In the end every event that the stream confirmed
// has a reconcile of its key that began after the event was stored, and that succeeded.
func TestKillLosesNothing(t *testing.T) {
	t.Parallel()
	kill := func(p *natstest.Process) { p.Kill() }
	term := func(p *natstest.Process) {
		p.Terminate()
		if err := p.Wait(); err != nil {
			t.Errorf("after SIGTERM a replica ended with %v", err)
		}
	}
	for name, c := range map[string]struct {
		replicas int
		ends     []func(*natstest.Process)
	}{
		"one replica":  {1, []func(*natstest.Process){kill, kill, kill, kill, kill, kill}},
		"SIGTERM too":  {1, []func(*natstest.Process){term, kill, term, kill, term}},
		"two replicas": {2, []func(*natstest.Process){kill, kill, term, kill, kill, kill, term, kill}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := seeded(t)
			w := newWorld(t)
			load := newCrashLoad(t, w, rand.New(rand.NewPCG(rng.Uint64(), 1)))
			replicas := make([]*natstest.Process, c.replicas)
			started := 0
			start := func(i int) {
				started++
				replicas[i] = w.child(strconv.Itoa(started), crashAckWait)
			}
			for i := range replicas {
				start(i)
			}
			for _, end := range c.ends {
				i := rng.IntN(len(replicas))
				if rng.IntN(4) > 0 { // else while it starts, perhaps
					replicas[i].WaitLine("running")
				}
				time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond) // the random moment
				end(replicas[i])
				start(i)
			}
			for _, p := range replicas {
				p.WaitLine("running")
			}
			load.stop()
			w.settled()
			load.judge()
			for _, p := range replicas {
				p.Terminate()
				if err := p.Wait(); err != nil {
					t.Errorf("the last replica ended with %v", err)
				}
			}
			if info := w.info(); info.NumAckPending != 0 || info.NumPending != 0 || info.NumRedelivered != 0 {
				t.Errorf("%d unsettled, %d to be handed out, %d redelivered", info.NumAckPending, info.NumPending, info.NumRedelivered)
			}
		})
	}
}

// crashLoad publishes events of rows that change, until it is stopped.
type crashLoad struct {
	t    *testing.T
	w    *world
	rows *rows
	end  context.CancelFunc
	over chan struct{}

	events []crashEvent // once over
}

// crashEvent is an event that the stream has confirmed.
type crashEvent struct {
	key     string
	version int
	receipt jsource.Receipt
	stored  time.Time
}

func newCrashLoad(t *testing.T, w *world, rng *rand.Rand) *crashLoad {
	t.Helper()
	l := &crashLoad{t: t, w: w, over: make(chan struct{})}
	orders := rand.New(rand.NewPCG(rng.Uint64(), 2))
	l.rows = newRows(t, w, func(string) order { // called under a lock
		return order{Work: time.Duration(orders.IntN(5000)) * time.Microsecond, Fail: orders.IntN(10) == 0}
	})
	var ctx context.Context
	ctx, l.end = context.WithCancel(context.Background())
	go l.publish(ctx, rng)
	t.Cleanup(l.stop)
	return l
}

func (l *crashLoad) publish(ctx context.Context, rng *rand.Rand) {
	defer close(l.over)
	for n := 0; ctx.Err() == nil; n++ {
		// Each row changes several times within moments and then never again: there is no later event
		// that would make good for the last one.
		e := crashEvent{key: "row" + strconv.Itoa(n/8+rng.IntN(4))}
		e.version = l.rows.commit(e.key)
		var err error
		e.receipt, err = jsource.PublishUpdated(context.Background(), l.w.pub, widgets, e.key,
			widget{Version: e.version - 1}, widget{Version: e.version})
		if err != nil {
			l.t.Errorf("publishing: %v", err)
			return
		}
		l.events = append(l.events, e)
		time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond) // the load's rhythm
	}
}

// stop ends the publishing.
func (l *crashLoad) stop() {
	l.end()
	<-l.over
}

// judge looks for a successful reconcile for each event. Clocks can be compared: all processes are on one
// machine.
func (l *crashLoad) judge() {
	l.t.Helper()
	stream, err := l.w.js.Stream(l.t.Context(), widgetStream)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range l.events {
		msg, err := stream.GetMsg(l.t.Context(), l.events[i].receipt.Sequence)
		if err != nil {
			l.t.Fatalf("sequence %d: %v", l.events[i].receipt.Sequence, err)
		}
		l.events[i].stored = msg.Time
	}
	natstest.Eventually(l.t, "reports of the last attempts", natstest.Patience, l.lost)
	attempts, deliveries := l.rows.all(), uint64(0)
	for _, s := range l.w.witness.All() {
		deliveries = max(deliveries, s.Deliveries)
	}
	l.t.Logf("%d events, %d attempts, a message was handed out up to %d times", len(l.events), len(attempts), deliveries)
	if deliveries < 2 {
		l.t.Error("nothing was handed out again: the kills hit nothing")
	}
}

// lost names an event that has no reconcile of its own.
func (l *crashLoad) lost() error {
	byKey := map[string][]childAttempt{}
	for _, a := range l.rows.all() {
		if a.done && a.Err == "" {
			byKey[a.Key] = append(byKey[a.Key], a)
		}
	}
	var lost []crashEvent
	for _, e := range l.events {
		ok := false
		for _, a := range byKey[e.key] {
			if a.Began.After(e.stored) && a.version >= e.version {
				ok = true
				break
			}
		}
		if !ok {
			lost = append(lost, e)
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("%d of %d events have no reconcile that began after they were stored; the first is version %d of %s, sequence %d",
			len(lost), len(l.events), lost[0].version, lost[0].key, lost[0].receipt.Sequence)
	}
	return nil
}
