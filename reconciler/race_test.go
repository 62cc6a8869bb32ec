package reconciler_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/levelstream/jsource/queue"
	"github.com/levelstream/jsource/reconciler"
)

// Case 24: what is pushed before and while the controller starts is not lost. The durable source registers
// first (S2), so that each message is settled, too.
func TestS2_EventsThatRaceWithTheStartAreNotLost(t *testing.T) {
	for round := range 1000 {
		const pushes = 10
		var left sync.WaitGroup
		left.Add(2 * pushes)
		var seen [2 * pushes]atomic.Bool
		messages := make([]message, pushes)

		plain := sourceFunc(func(ctx context.Context, out chan<- string) error {
			go func() {
				for i := range pushes {
					push(ctx, out, fmt.Sprint(i))
				}
			}()
			return nil
		})
		durable := sourceFunc(func(ctx context.Context, out chan<- string) error {
			group := reconciler.TrackerFrom[string](ctx).NewGroup(queue.GroupOptions{})
			deliver := func(from, to int) {
				for i := from; i < to; i++ {
					reqs := []string{fmt.Sprint(pushes + i)}
					group.Register(&messages[i].Entry, &messages[i], reqs)
					push(ctx, out, reqs[0])
				}
			}
			deliver(0, pushes/2) // before it has started
			go deliver(pushes/2, pushes)
			return nil
		})
		c := build(t, newBuilder(plain, durable).Workers(2), func(_ context.Context, req string) (result, error) {
			var i int
			_, _ = fmt.Sscan(req, &i)
			if !seen[i].Swap(true) {
				left.Done()
			}
			return result{}, nil
		})
		stop := start(t, c)
		left.Wait()
		stopped(t, stop) // attempts that run finish
		for i := range messages {
			equal(t, fmt.Sprintf("round %d, verdict of message %d", round, i), messages[i].verdict(), [2]int{1, 0})
		}
	}
}
