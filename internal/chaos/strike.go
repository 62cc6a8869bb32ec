//go:build unix

package chaos

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/internal/history"
	"github.com/levelstream/jsource/internal/natstest"
)

// step is something to do at a time.
type step struct {
	at time.Duration
	do func()
}

// later does something after d.
func (w *world) later(d time.Duration, do func()) {
	s := step{w.since() + d, do}
	i, _ := slices.BinarySearchFunc(w.steps, s, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	w.steps = slices.Insert(w.steps, i, s)
}

// strike makes a fault happen and sees to it that it ends.
func (w *world) strike(f Fault) {
	over, hit := w.begin(f)
	if !hit {
		w.missed[f.Kind]++
		return
	}
	w.faults[f.Kind]++
	w.last = f
	if over != nil {
		w.later(f.For, over)
	}
}

// begin makes a fault happen. It returns what ends it, and false if there was nothing to hit.
func (w *world) begin(f Fault) (over func(), hit bool) {
	if kind, ok := raging()[f.Kind]; ok {
		w.setWeather(kind, true)
		return func() { w.setWeather(kind, false) }, true
	}
	switch f.Kind {
	case kill, term, away, roll, cutReplica, outage, stallUp, stallDown, hungUp, lag, pause, lapse, lapseKilled:
		seat := w.alive(f.Slot)
		if seat < 0 {
			return nil, false
		}
		return w.hit(f.Kind, seat), true
	case deleteThenKill, killThenDelete:
		if w.alive(f.Slot) < 0 {
			return nil, false
		}
		return w.orphan(f), true
	case cutLoad:
		w.wire.cut()
		return nil, true
	case deleteConsumer, purge, remakeStream, deleteStream:
		return nil, w.wipe(f)
	default:
		return w.hitServer(f)
	}
}

// lagTime is how long a slow network takes, each way.
const lagTime = 60 * time.Millisecond

// hit hits the replica in a seat.
func (w *world) hit(kind FaultKind, seat int) (over func()) {
	r := w.seats[seat]
	again := func() { w.start(seat) }
	switch kind {
	case kill:
		r.kill()
		return again
	case term, away:
		r.terminate()
		return again
	case roll:
		w.seats[seat] = nil
		w.start(seat)
		return r.terminate
	case cutReplica:
		r.wire.cut()
	case outage:
		r.wire.setRefuse(true)
		r.wire.cut()
		return func() { r.wire.setRefuse(false) }
	case stallUp:
		r.wire.stall(up)
		return func() { r.wire.resume(up) }
	case stallDown:
		r.wire.stall(down)
		return func() { r.wire.resume(down) }
	case hungUp:
		w.setWeather(hang, true)
		r.wire.stall(up)
		return func() {
			w.setWeather(hang, false)
			r.wire.resume(up)
		}
	case lag:
		r.wire.setLag(lagTime)
		return func() { r.wire.setLag(0) }
	case pause:
		r.pause()
		return r.goOn
	case lapse:
		w.setWeather(hang, true)
		r.wire.stall(up)
		return func() {
			w.setWeather(hang, false)
			r.terminate()
			w.later(grace/3, func() { r.wire.resume(up) })
			w.later(grace, again)
		}
	case lapseKilled:
		r.wire.stall(up)
		return func() {
			r.kill()
			again()
			w.later(w.cfg.AckWait, func() { r.wire.resume(up) })
		}
	}
	return nil
}

// orphan makes reconciles hang, so that much is held, and then kills a replica and deletes the durable, one
// right after the other: whoever makes the durable anew knows nothing of what the dead one held.
func (w *world) orphan(f Fault) (over func()) {
	w.setWeather(hang, true)
	strike := func() {
		if seat := w.alive(f.Slot); seat >= 0 {
			w.seats[seat].kill()
			w.later(time.Second, func() { w.start(seat) })
		}
	}
	return func() {
		w.setWeather(hang, false)
		if f.Kind == killThenDelete {
			strike()
		}
		w.wipe(Fault{Kind: deleteConsumer})
		if f.Kind == deleteThenKill {
			w.later(200*time.Millisecond, strike)
		}
	}
}

// wipe hits the stream or its durable.
func (w *world) wipe(f Fault) bool {
	if w.server != nil && !w.server.running() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if f.Kind != deleteConsumer {
		floor := history.Floor{At: now()}
		if info, err := w.consumerInfo(); err == nil {
			floor.Seq = info.AckFloor.Stream
			w.rec.Change(func(h *history.History) { h.Floors = append(h.Floors, floor) })
		}
	}
	begin := now()
	var err error
	switch f.Kind {
	case deleteConsumer:
		err = w.js.DeleteConsumer(ctx, streamName, durableName)
	case purge:
		err = w.purge(ctx, f.Slot)
	default:
		if err = w.js.DeleteStream(ctx, streamName); err == nil && f.Kind == remakeStream {
			_, err = w.js.CreateStream(ctx, streamConfig(w.cfg.replicas()))
		}
	}
	end := now()
	if err != nil {
		end += 10 * time.Second // whether and when it happens, nobody knows
	}
	if f.Kind != deleteConsumer {
		w.rec.Wiped(history.Wipe{What: string(f.Kind), Deleted: f.Kind != purge, Begin: begin, End: end})
	}
	if w.server != nil && errors.Is(err, context.DeadlineExceeded) {
		// One server that is left alone has no reason not to answer.
		w.note(false, "the server does not answer (%s): killed, with its stacks in its log", f.Kind)
		w.server.dump()
		w.server.start()
	}
	return err == nil
}

// purge takes everything out of the stream, or all but the newest, or the older half.
func (w *world) purge(ctx context.Context, how int) error {
	stream, err := w.js.Stream(ctx, streamName)
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	var opts []jetstream.StreamPurgeOpt
	switch how {
	case 1:
		opts = append(opts, jetstream.WithPurgeKeep(10))
	case 2:
		opts = append(opts, jetstream.WithPurgeSequence((state.FirstSeq+state.LastSeq)/2))
	}
	return stream.Purge(ctx, opts...)
}

// hitServer hits the server, or one of the cluster's.
func (w *world) hitServer(f Fault) (over func(), hit bool) {
	switch f.Kind {
	case restart:
		w.server.stop()
		return w.server.start, true
	case killServer:
		w.server.kill()
		return w.server.start, true
	}
	s := w.cluster.Servers()[f.Slot]
	switch f.Kind {
	case killStreamLeader, stepStream:
		s = w.leader(func(s *server.Server) bool {
			return s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, streamName)
		})
	case killConsumerLeader, stepConsumer:
		s = w.leader(func(s *server.Server) bool {
			return s.JetStreamIsConsumerLeader(server.DEFAULT_GLOBAL_ACCOUNT, streamName, durableName)
		})
	case killMetaLeader:
		s = w.leader((*server.Server).JetStreamIsLeader)
	}
	if s == nil || !s.Running() {
		return nil, false
	}
	switch f.Kind {
	case stepStream:
		return nil, s.Server().JetStreamStepdownStream(server.DEFAULT_GLOBAL_ACCOUNT, streamName) == nil
	case stepConsumer:
		return nil, s.Server().JetStreamStepdownConsumer(server.DEFAULT_GLOBAL_ACCOUNT, streamName, durableName) == nil
	}
	i := w.cluster.Index(s)
	switch f.Kind {
	case partition:
		w.cluster.Partition(i)
		return func() { w.cluster.Heal(i) }, true
	case crash:
		w.cluster.Partition(i)
		s.Stop()
		return func() {
			w.cluster.Heal(i)
			s.Relaunch()
		}, true
	default:
		s.Stop()
		return s.Relaunch, true
	}
}

// leader is the server that leads something now, nil if there is none.
func (w *world) leader(leads func(*server.Server) bool) *natstest.Server {
	for _, s := range w.cluster.Servers() {
		if s.Running() && leads(s.Server()) {
			return s
		}
	}
	return nil
}
