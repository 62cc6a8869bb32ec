// Package chaos breaks things on purpose, under load, and has package history judge what came of it.
//
//	           plan (seed)
//	              │ faults
//	              ▼
//	load ──▶ Server / Cluster ◀── wire ── replica   a process each: kill, term
//	  │                            │         │
//	  │ Publish            Signal, │         │ Mapping, Attempt, on a pipe
//	  ▼                    Answer  ▼         ▼
//	  └──────────────────────▶ history ◀─────┘ ──▶ Check
//
// A run has three phases: faults, for as long as it was told; then everything is healed and calm until
// the durable is idle, or a bound has passed; then every replica is asked to stop and the history is
// judged. What happens, when and to whom is decided by the seed alone, so that a run can be had again; how
// the processes interleave is not.
//
// Each replica is a process of its own and reaches the servers through a wire of its own, so whatever
// passes that wire is that replica's: the witness needs no help from what it watches.
//
// # Clocks
//
// Every time in the history is read from the system's monotonic clock, which is one for all processes of
// a machine and never steps. What that makes of "began after" is argued in package history.
package chaos
