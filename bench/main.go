// Command bench measures the sources of this module: how many events a second, how late, at what cost, also
// through a fault. It is for whoever wants to know before trusting them.
//
//	go run ./bench                                    # core NATS beside jsource, about half a minute
//	go run ./bench -keys 1,100,10000,0 -rounds 5      # throughput against keys
//	go run ./bench -rate 1000 -fault restart          # what a restart of the server does to latency
//	go run ./bench -nats nats://localhost:4222 -o json
//
// With bench/peers, what people would use instead takes part in the same runs.
package main

import (
	"os"

	"github.com/levelstream/jsource/internal/bench"
)

func main() {
	bench.ServeIfChild()
	os.Exit(bench.Main("bench", os.Args[1:], bench.Ours()))
}
