//go:build unix

package chaos

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is the system's monotonic clock: the same in every process of the machine. (The monotonic part of a
// time.Time is that too, but only differences within one process can be had of it.)
func now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("no monotonic clock: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
