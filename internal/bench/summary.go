package bench

import "slices"

// summary is what all rounds of one contender on one Spec come to: of each figure the median.
type summary struct {
	Result
	// ratio is its events per second, as a multiple of what the first contender had in the same round.
	ratio float64
}

// summaries takes the results of each contender, round by round.
func summaries(of [][]*Result) []summary {
	var all []summary
	for _, rounds := range of {
		s := summary{Result: *rounds[0]}
		each := func(get func(*Result) *float64) {
			*get(&s.Result) = medianOf(rounds, func(r *Result) float64 { return *get(r) })
		}
		each(func(r *Result) *float64 { return &r.Seconds })
		each(func(r *Result) *float64 { return &r.EventsPerSecond })
		each(func(r *Result) *float64 { return &r.AttemptsPerEvent })
		each(func(r *Result) *float64 { return &r.CPUMicrosPerEvent })
		each(func(r *Result) *float64 { return &r.ServerMicros })
		each(func(r *Result) *float64 { return &r.AllocsPerEvent })
		each(func(r *Result) *float64 { return &r.AllocBytesPerEvent })
		each(func(r *Result) *float64 { return &r.WireIn })
		each(func(r *Result) *float64 { return &r.WireOut })
		each(func(r *Result) *float64 { return &r.MessagesOut })
		each(func(r *Result) *float64 { return &r.Reads })
		each(func(r *Result) *float64 { return &r.Writes })
		s.PeakMemory = uint64(medianOf(rounds, func(r *Result) float64 { return float64(r.PeakMemory) }))
		s.ToReconcile = medianLatency(rounds, func(r *Result) *Latency { return r.ToReconcile })
		s.ToSettled = medianLatency(rounds, func(r *Result) *Latency { return r.ToSettled })
		s.Late = medianLatency(rounds, func(r *Result) *Latency { return r.Late })
		for _, r := range rounds { // what must not be is not averaged away
			s.Lost = max(s.Lost, r.Lost)
			s.Settled = min(s.Settled, r.Settled)
		}
		var ratios []float64
		for i, r := range rounds {
			if first := of[0][i].EventsPerSecond; first > 0 {
				ratios = append(ratios, r.EventsPerSecond/first)
			}
		}
		s.ratio = median(ratios)
		all = append(all, s)
	}
	return all
}

func medianOf(rounds []*Result, get func(*Result) float64) float64 {
	var values []float64
	for _, r := range rounds {
		values = append(values, get(r))
	}
	return median(values)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	m := len(values) / 2
	if len(values)%2 == 1 {
		return values[m]
	}
	return (values[m-1] + values[m]) / 2
}

func medianLatency(rounds []*Result, get func(*Result) *Latency) *Latency {
	var known []*Result
	for _, r := range rounds {
		if get(r) != nil {
			known = append(known, r)
		}
	}
	if len(known) == 0 {
		return nil
	}
	of := func(field func(*Latency) float64) float64 {
		return medianOf(known, func(r *Result) float64 { return field(get(r)) })
	}
	return &Latency{
		P50:  of(func(l *Latency) float64 { return l.P50 }),
		P90:  of(func(l *Latency) float64 { return l.P90 }),
		P99:  of(func(l *Latency) float64 { return l.P99 }),
		P999: of(func(l *Latency) float64 { return l.P999 }),
		Max:  of(func(l *Latency) float64 { return l.Max }),
		N:    get(known[0]).N,
	}
}
