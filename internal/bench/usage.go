package bench

import (
	"runtime/metrics"
	"sync"
	"time"
)

// usage is what this process has used at a moment.
type usage struct {
	cpu     time.Duration
	objects uint64 // allocated so far
	bytes   uint64
	memory  uint64 // held now: all that the Go runtime has from the system
}

func usedNow() usage {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	return usage{
		cpu:     cpuTime(),
		objects: samples[0].Value.Uint64(),
		bytes:   samples[1].Value.Uint64(),
		memory:  samples[2].Value.Uint64() - samples[3].Value.Uint64(),
	}
}

// peak watches how much memory this process holds.
type peak struct {
	stop chan struct{}
	done sync.WaitGroup
	most uint64 // once stopped
}

const peakEvery = 50 * time.Millisecond

func watchPeak() *peak {
	p := &peak{stop: make(chan struct{})}
	p.done.Go(func() {
		ticker := time.NewTicker(peakEvery)
		defer ticker.Stop()
		for {
			p.most = max(p.most, usedNow().memory)
			select {
			case <-p.stop:
				return
			case <-ticker.C:
			}
		}
	})
	return p
}

// end returns the most that was held.
func (p *peak) end() uint64 {
	close(p.stop)
	p.done.Wait()
	return p.most
}
