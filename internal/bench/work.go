package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// work is how long a reconcile takes. It waits, as one does that talks to a database: it takes no CPU.
type work struct {
	fixed time.Duration
	mean  time.Duration // of the heavy-tailed one
}

// The heavy tail: a Pareto distribution. With this shape one reconcile in a hundred takes 7 times the
// mean, and one in a thousand 33 times; nothing takes longer than tailMost times the mean.
const (
	tailShape = 1.5
	tailMost  = 100
)

// parseWork reads "none", "1ms" or "heavy:1ms".
func parseWork(s string) (work, error) {
	if s == "none" || s == "0" {
		return work{}, nil
	}
	text, heavy := strings.CutPrefix(s, "heavy:")
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > time.Minute {
		return work{}, fmt.Errorf(`-reconcile %q: "none", a duration up to 1m ("1ms"), or "heavy:" and the mean ("heavy:1ms")`, s)
	}
	if heavy {
		return work{mean: d}, nil
	}
	return work{fixed: d}, nil
}

func (w work) do(ctx context.Context) {
	d := w.fixed
	if w.mean > 0 {
		least := float64(w.mean) * (tailShape - 1) / tailShape
		x := least / math.Pow(1-rand.Float64(), 1/tailShape)
		d = time.Duration(min(x, tailMost*float64(w.mean)))
	}
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
