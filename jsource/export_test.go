package jsource

import "time"

// UndecodableDelay makes the source give back for d what it cannot decode.
func (s *Source[K, T, request]) UndecodableDelay(d time.Duration) *Source[K, T, request] {
	s.options.delays.undecodable = d
	return s
}

// MapDelays makes the source give back for first, and then twice that with each hand-out up to most, what it
// cannot map.
func (s *Source[K, T, request]) MapDelays(first, most time.Duration) *Source[K, T, request] {
	s.options.delays.mapFirst, s.options.delays.mapMost = first, most
	return s
}

// LostDelay makes the source give back for d what the engine did not work on.
func (s *Source[K, T, request]) LostDelay(d time.Duration) *Source[K, T, request] {
	s.options.delays.lost = d
	return s
}
