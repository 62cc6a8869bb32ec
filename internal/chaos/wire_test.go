//go:build unix

package chaos

import (
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/levelstream/jsource/internal/natstest"
)

// notes is a tap that notes subjects.
type notes struct {
	mu                   sync.Mutex
	sents, passes, hands []string
	links                []int
}

func (n *notes) sent(link int, _ time.Duration, m message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sents, n.links = append(n.sents, string(m.subject)), append(n.links, link)
}

func (n *notes) passed(_ time.Duration, m message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.passes = append(n.passes, string(m.subject))
}

func (n *notes) handed(_ int, _ time.Duration, m message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hands = append(n.hands, string(m.subject))
}

func (n *notes) count(list *[]string, subject string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, s := range *list {
		if s == subject {
			count++
		}
	}
	return count
}

func (n *notes) wait(t *testing.T, list *[]string, subject string) {
	t.Helper()
	natstest.Until(t, subject+" is seen", natstest.Patience, func() bool { return n.count(list, subject) > 0 })
}

func TestWireSeesWhatAClientSendsWhileItIsHeldBack(t *testing.T) {
	srv := natstest.Start(t)
	n := new(notes)
	w := newWire(t, srv.Addr, n)
	conn := natstest.Connect(t, w.url())
	sub, err := srv.Conn().SubscribeSync("up.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	natstest.WaitConnected(t, conn)

	w.stall(up)
	if err := conn.Publish("up.1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	n.wait(t, &n.sents, "up.1")
	if n.count(&n.passes, "up.1") > 0 {
		t.Error("it passed a shut gate")
	}
	w.resume(up)
	n.wait(t, &n.passes, "up.1")
	if m, err := sub.NextMsg(natstest.Patience); err != nil || m.Subject != "up.1" {
		t.Errorf("the server got %v, %v", m, err)
	}
}

func TestWireHandsOnWhatTheServerSendsOnceItIsLetThrough(t *testing.T) {
	srv := natstest.Start(t)
	n := new(notes)
	w := newWire(t, srv.Addr, n)
	conn := natstest.Connect(t, w.url())
	got := make(chan *natsgo.Msg, 1)
	if _, err := conn.ChanSubscribe("down.>", got); err != nil {
		t.Fatal(err)
	}
	natstest.WaitConnected(t, conn)
	w.stall(down)
	other := srv.Conn()
	if err := other.Publish("down.1", nil); err != nil {
		t.Fatal(err)
	}
	if err := other.FlushTimeout(natstest.Patience); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
		t.Error("it came through a shut gate")
	case <-time.After(50 * time.Millisecond):
	}
	if n.count(&n.hands, "down.1") > 0 {
		t.Error("it is recorded as handed over, but was not")
	}
	w.resume(down)
	<-got
	if n.count(&n.hands, "down.1") != 1 {
		t.Error("it is not recorded")
	}
}

func TestWireNumbersConnections(t *testing.T) {
	srv := natstest.Start(t)
	n := new(notes)
	w := newWire(t, srv.Addr, n)
	conn := natstest.Connect(t, w.url())
	natstest.WaitConnected(t, conn)
	for _, subject := range []string{"first", "second"} {
		if err := conn.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		n.wait(t, &n.passes, subject)
		w.cut()
		natstest.WaitConnected(t, conn)
	}
	w.setRefuse(true)
	w.cut()
	if err := conn.FlushTimeout(100 * time.Millisecond); err == nil {
		t.Error("a refused client is connected")
	}
	w.setRefuse(false)
	natstest.WaitConnected(t, conn)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.links) < 2 || n.links[0] >= n.links[1] {
		t.Errorf("connections %v, want rising numbers", n.links)
	}
}
