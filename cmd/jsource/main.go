// Command jsource looks after what jsource sources leave on a NATS server: how their durables are doing, and
// their dead letters.
//
//	jsource status                     every durable: what waits, what is unsettled, and which requests hold it
//	jsource dead list                  every dead letter
//	jsource dead show ID…              all of some, with headers and payload
//	jsource dead replay ID… | --all    publish their events again, and drop them
//	jsource dead drop ID… | --all      drop them
//
// It connects as the nats command does: by its context files and environment variables.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(os.Stdout, os.Stderr).Run(ctx, os.Args)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "jsource:", err)
		os.Exit(1)
	}
}
