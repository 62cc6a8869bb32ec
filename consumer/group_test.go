package consumer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/internal/natstest"
)

// asked returns the sequences of the verdicts that ask for an answer.
func (p *replica) asked() (seqs []uint64) {
	for _, s := range p.wire.All() {
		if s.Verdict() && s.Reply != "" {
			seqs = append(seqs, s.StreamSeq)
		}
	}
	return seqs
}

// The server takes in what one connection sends in order: one answer stands for all verdicts that were sent before
// it, and until it is there none of them is confirmed.
func TestS3_OneAnswerForVerdictsSentTogether(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica(before(func(c *consumer.Consumer) { consumer.SetResend(c, time.Hour) }))
	const n = 100
	p.publish(1, n)
	ms := p.got(n)
	p.proxy.Stall(natstest.ServerToClient)
	consumer.AckTogether(p.c, ms...)
	p.wire.WaitFor(t, "all verdicts are sent", func(all []natstest.Settlement) bool {
		return p.wire.Count(natstest.Ack) == n
	})
	if got := p.asked(); len(got) != 2 || got[0] != 64 || got[1] != n {
		t.Errorf("answers are asked for to %v, want 64 and %d", got, n)
	}
	for _, m := range ms {
		if ends := p.endings(m); len(ends) > 0 {
			t.Errorf("message %d ended with %v before the server has answered", m.Sequence(), ends)
		}
	}
	p.proxy.Resume(natstest.ServerToClient)
	for _, m := range ms {
		p.ended(consumer.Acked, m)
	}
	p.settled()
	for seq := range uint64(n) {
		p.only(seq+1, natstest.Ack, 1, 1)
	}
}

// On another connection, and once the durable was doubted, the answer to the last of them says nothing of the others:
// what was sent before may not have arrived.
func TestS3_AnswerAfterADisturbanceStandsForOneVerdict(t *testing.T) {
	for name, disturb := range map[string]func(p *replica){
		"reconnect": func(p *replica) {
			was := p.conn.Stats().Reconnects
			p.proxy.Cut()
			natstest.Until(p.t, "it is connected again", natstest.Patience, func() bool { return p.conn.Stats().Reconnects > was })
		},
		"doubt": func(p *replica) { consumer.Doubt(p.c) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			swallow := true // whatever is sent
			p := newRig(t).replica(wait(time.Minute), before(func(c *consumer.Consumer) {
				consumer.SetResend(c, time.Hour)
				consumer.Swallow(c, func(subject, _ string) bool { return swallow && strings.HasPrefix(subject, "$JS.ACK.") })
			}))
			p.publish(1, 3)
			ms := p.got(3)
			consumer.AckTogether(p.c, ms...)
			natstest.Until(t, "the verdicts are on their way", natstest.Patience, func() bool { return consumer.Sent(ms[2]) })
			disturb(p)
			consumer.Answer(p.c, ms[2], "+OK")
			for _, m := range ms[:2] {
				if ends := p.endings(m); len(ends) > 0 {
					t.Errorf("message %d ended with %v, and its verdict has not arrived", m.Sequence(), ends)
				}
			}
			consumer.Locked(p.c, func() { swallow = false })
			consumer.Doubt(p.c) // after which what is not confirmed is sent again
			p.ended(consumer.Acked, ms[:2]...)
			p.ackPending(1)
		})
	}
}

// redpanda-data/connect#1772: something in the account answers "+ACK" to every message that it can hear, ours to the
// server among them. That confirms nothing.
func TestS3_NobodyElseCanConfirm(t *testing.T) {
	t.Parallel()
	p := newRig(t).replica()
	p.publish(1, 1)
	m := p.got(1)[0]
	p.proxy.Stall(natstest.ClientToServer)
	m.Ack()
	natstest.Until(t, "the ack is on its way", natstest.Patience, func() bool { return consumer.Sent(m) })
	consumer.Answer(p.c, m, "+ACK")
	if ends := p.endings(m); len(ends) > 0 {
		t.Errorf("ended with %v, and the ack has not arrived", ends)
	}
	p.proxy.Resume(natstest.ClientToServer)
	p.ended(consumer.Acked, m)
	p.settled()
}
