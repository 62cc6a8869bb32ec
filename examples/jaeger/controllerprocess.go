package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	natsgo "github.com/nats-io/nats.go"
)

const (
	roleFlag       = "-role"
	roleController = "controller"
	readyLine      = "ready"
)

// instructions are what the controller's process is told on its standard input. The end of the input means stop, so
// that it does not outlive who started it.
type instructions struct {
	NATS string // URL
	OTLP string // host:port
}

// runController is the whole of the controller's process.
func runController(in io.Reader, out io.Writer) (err error) {
	// Ctrl-C reaches every process of the terminal: it is for the other one to say when to stop.
	signal.Ignore(os.Interrupt)
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return fmt.Errorf("no instructions: this process is started by the example (%w)", io.ErrUnexpectedEOF)
	}
	var told instructions
	if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
		return fmt.Errorf("reading the instructions: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		defer stop()
		for lines.Scan() { // until the input ends
			continue
		}
	}()
	provider, err := setUpTracing(ctx, controllerName, told.OTLP)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shutDown(ctx, provider)) }()
	conn, err := natsgo.Connect(told.NATS, natsgo.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connecting the controller to NATS at %s: %w", told.NATS, err)
	}
	defer conn.Close()
	controller, source, err := newFleetStage(conn)
	if err != nil {
		return err
	}
	go func() {
		err := poll(ctx, "waiting for the source", func() (bool, error) { return source.Healthy() == nil, nil })
		if err == nil {
			fmt.Fprintln(out, readyLine)
		}
	}()
	return controller.Start(ctx)
}
