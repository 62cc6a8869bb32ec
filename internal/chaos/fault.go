//go:build unix

package chaos

import (
	"fmt"
	"time"
)

// Fault is one thing that goes wrong.
type Fault struct {
	Kind FaultKind
	At   time.Duration // since the faults began
	For  time.Duration // until it is over; 0: it is over at once
	Slot int           // whom it hits: the slot of a replica, or the number of a server
}

func (f Fault) String() string {
	return fmt.Sprintf("%v %s (%d) for %v", f.At.Round(time.Millisecond), f.Kind, f.Slot, f.For.Round(time.Millisecond))
}

// FaultKind names a fault.
type FaultKind string

// Faults that hit one replica.
const (
	kill        FaultKind = "replica killed"                 // SIGKILL; started again when it is over
	term        FaultKind = "replica terminated"             // SIGTERM; started again when it is over
	away        FaultKind = "replica away"                   // the same, for long
	roll        FaultKind = "replica replaced"               // another is started before it gets SIGTERM
	cutReplica  FaultKind = "replica's connection cut"       // it may connect again at once
	outage      FaultKind = "replica cut off"                // it may not, until it is over
	stallUp     FaultKind = "stalled to the server"          // its bytes are held back
	stallDown   FaultKind = "stalled from the server"        // the server's are
	hungUp      FaultKind = "hung and stalled to the server" // held past AckWait: handed out again, perhaps to the same
	lag         FaultKind = "replica's network slow"
	pause       FaultKind = "replica paused"               // SIGSTOP, then SIGCONT
	lapse       FaultKind = "stalled, hung and terminated" // held past AckWait with work that hangs, then SIGTERM
	lapseKilled FaultKind = "stalled and killed"           // what it has sent arrives after its death
)

// Faults that hit the load, the reconciles and the mappers.
const (
	cutLoad   FaultKind = "publisher's connection cut"
	weatherOf FaultKind = "weather: " // and its name
)

// Faults that hit the stream and its durable.
const (
	deleteConsumer FaultKind = "consumer deleted"
	purge          FaultKind = "stream purged"
	remakeStream   FaultKind = "stream deleted and made anew"
	deleteStream   FaultKind = "stream deleted" // whoever needs it makes it anew
)

// Faults in which a durable that is made anew must begin at what a replica that died had not settled.
const (
	deleteThenKill FaultKind = "hung, consumer deleted, then a replica killed"
	killThenDelete FaultKind = "hung, a replica killed, then consumer deleted"
)

// Faults that hit servers.
const (
	restart            FaultKind = "server restarted"
	killServer         FaultKind = "server killed" // SIGKILL
	killStreamLeader   FaultKind = "stream leader stopped"
	killConsumerLeader FaultKind = "consumer leader stopped"
	killMetaLeader     FaultKind = "meta leader stopped"
	crash              FaultKind = "server cut off and stopped" // without handing over what it leads
	stepStream         FaultKind = "stream leader stepped down"
	stepConsumer       FaultKind = "consumer leader stepped down"
	partition          FaultKind = "server partitioned"
)

// raging are the weathers, as faults.
func raging() map[FaultKind]weather {
	return map[FaultKind]weather{
		weatherOf + "slow reconciles":       slow,
		weatherOf + "hanging reconciles":    hang,
		weatherOf + "failing reconciles":    fail,
		weatherOf + "panicking reconciles":  blowUp,
		weatherOf + "terminal errors":       terminal,
		weatherOf + "failing mapper":        mapFail,
		weatherOf + "panicking mapper":      mapBlowUp,
		weatherOf + "unfinished reconciles": unfinish,
	}
}
