// Command peers is command bench with what people would use instead of this module's sources: each the way
// its own documentation tells a user to do it, in the same run, on the same events.
//
//	go run . -source all            # from this folder; make bench-peers from the top
//	go run . -rate 0 -rounds 5 -source core,jsource,raw,raw-undecoded
//
// A peer without a work queue reconciles each event by itself. Those that run one callback at a time do so
// whatever -workers says: that is what they do.
package main

import (
	"os"

	"github.com/levelstream/jsource/internal/bench"
)

func main() {
	bench.ServeIfChild()
	os.Exit(bench.Main("peers", os.Args[1:], contenders()))
}

// contenders are our sources and the peers.
func contenders() []bench.Contender {
	return append(bench.Ours(), raw(), rawUndecoded(), rawConfirmed(), rawEarly(), waterMill(), controllerRuntime())
}
