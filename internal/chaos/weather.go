//go:build unix

package chaos

// weather is one way for reconciles and mappers to misbehave; its value in the table is how many in a
// thousand do.
type weather int

const (
	slow      weather = iota // take 50 to 300 ms
	hang                     // take until their context ends, or a few AckWaits
	fail                     // return an error
	blowUp                   // panic
	terminal                 // return a terminal error, those that see one of certain changes
	mapFail                  // the mapper returns an error
	mapBlowUp                // the mapper panics
	unfinish                 // are unfinished
	weathers
)

// share is what the weather is when it rages, in a thousand.
func (w weather) share() uint64 {
	switch w {
	case slow:
		return 300
	case hang:
		return 100
	case fail:
		return 300
	case terminal:
		return 1000
	case mapFail, mapBlowUp:
		return 150
	default:
		return 200
	}
}
