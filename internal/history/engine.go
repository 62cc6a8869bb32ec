package history

// The rules about the engine and the end.
const (
	// Engine: no request runs on two workers of one replica at once.
	Engine Rule = "engine"
	// Idle: nothing is owed at the end.
	Idle Rule = "idle"
)

// overlaps checks that a request never has two attempts at once in one replica.
func (r *Report) overlaps() {
	for req, replicas := range r.index.attempts {
		for replica, list := range replicas {
			for i := 1; i < len(list); i++ {
				// An attempt whose end was not seen was cut off by the death of its replica.
				if before := list[i-1]; before.End == 0 || list[i].Begin < before.End {
					r.add(Engine, nil, replica, "began an attempt on %q at %v while the one begun at %v was running", req, list[i].Begin, before.Begin)
					break
				}
			}
		}
	}
}

// idle checks that nothing is owed at the end.
func (r *Report) idle() {
	f := r.index.Final
	if f.TimedOut || f.NumPending != 0 || f.NumAckPending != 0 {
		r.add(Idle, nil, "", "after %v there are %d messages pending and %d unacknowledged", f.Waited, f.NumPending, f.NumAckPending)
	}
}
