package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
)

// When things happen, in percent of the events.
const (
	killAt  = 25
	startAt = 40
	cutAt   = 60
	mendAt  = 70
)

// demo is one run.
type demo struct {
	settings
	dir    string // for everything that is on disk
	broker *broker
	ledger *ledger
	view   *view
	api    *apiServer

	controllers [2]*controllerState
	// background runs fn; when that fails, everything ends.
	background func(fn func(context.Context) error)
}

var errInterrupted = errors.New("interrupted")

// play runs the demo and prints what it comes to. What it has made is gone when it returns.
func play(ctx context.Context, s settings, out io.Writer, t terminal) error {
	d := &demo{settings: s}
	var err error
	if d.dir, err = os.MkdirTemp("", "jsource-demo-"); err != nil {
		return fmt.Errorf("making a folder for the run: %w", err)
	}
	topic := newTopic("jsource-demo-" + uuid.NewString()[:8])
	if d.broker, err = startBroker(ctx, s.url, s.creds, filepath.Join(d.dir, "nats"), topic); err == nil {
		err = errors.Join(d.run(ctx, out, t), d.broker.close())
	}
	if err != nil && ctx.Err() != nil {
		err = errInterrupted
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

func (d *demo) run(ctx context.Context, out io.Writer, t terminal) error {
	stages := stagesOf(d.keys)
	st, err := createStore(ctx, d.file("requests"), stages)
	if err != nil {
		return err
	}
	defer st.Close()
	d.ledger = newLedger(stages)
	d.api, err = newAPIServer(d.broker.conn, d.broker.topic, st, d.ledger, newLoad(d.seed, stages), d.rate)
	if err != nil {
		return err
	}
	where := "a NATS server of its own"
	if d.url != "" {
		where = d.broker.conn.ConnectedUrlRedacted()
	}
	fmt.Fprintf(out, "jsource demo: %s events of PromotionRequests of %s Stages, %s a second, over %s; "+
		"resync every %v; seed %d\n", thousands(d.events), thousands(d.keys), thousands(d.rate), where, d.resync, d.seed)
	d.view = newView(out, t, d.ledger, d.events)
	d.view.start()
	err = d.perform(ctx)
	d.view.close()
	if err != nil {
		return err
	}

	v := d.ledger.verdict()
	if v.columns[jetStream].unsettled, err = d.broker.unsettled(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out)
	printTable(out, t.style, &v, d.resync)
	fmt.Fprintf(out, "The whole took %.0f s.\n", time.Since(d.view.began).Seconds())
	return v.failure(d.seed)
}

func (d *demo) file(name string) string { return filepath.Join(d.dir, name+".db") }

// at is how many events are so many percent of them.
func (d *demo) at(percent int) int { return d.events * percent / 100 }

// perform runs the two controllers and the load, and returns when everything that is to happen has.
func (d *demo) perform(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	d.background = func(fn func(context.Context) error) {
		running.Go(func() {
			if err := fn(ctx); err != nil {
				cancel(err)
			}
		})
	}
	end := sync.OnceValue(func() error {
		cancel(nil)
		running.Wait()
		return d.stop()
	})
	defer func() {
		for _, c := range d.controllers {
			if c != nil && c.tail != nil {
				c.tail.db.Close()
			}
		}
	}()
	defer func() {
		if e := end(); err == nil {
			err = e
		}
	}()

	for i := range d.controllers {
		c := new(controllerState)
		d.controllers[i] = c
		if err := createStatuses(ctx, d.file(statusFile[i])); err != nil {
			return err
		}
		if c.tail, err = openTail(i, d.file(statusFile[i]), d.ledger); err != nil {
			return err
		}
		d.background(c.tail.follow)
	}
	if err := d.startControllers(); err != nil {
		return err
	}
	if err := d.waitBack(ctx); err != nil {
		return err
	}
	d.background(func(ctx context.Context) error { return d.broker.watch(ctx, d.ledger) })
	d.background(func(ctx context.Context) error { return d.api.run(ctx, d.events) })
	if err := d.story(ctx); err != nil {
		return err
	}
	if err := d.finish(ctx); err != nil {
		return err
	}
	// What the controllers wrote to their last moment counts.
	if err := end(); err != nil {
		return err
	}
	for _, c := range d.controllers {
		if err := c.tail.read(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// story is what happens while the load goes on.
func (d *demo) story(ctx context.Context) error {
	d.view.say("both controllers run: the same code, one on core NATS, the other on JetStream")
	d.api.allow(d.at(cutAt))
	if err := d.api.reached(ctx, d.at(killAt)); err != nil {
		return err
	}
	d.killControllers()
	d.view.say("SIGKILL to both controllers; the API server goes on publishing")
	if err := d.api.reached(ctx, d.at(startAt)); err != nil {
		return err
	}
	for i := range d.controllers {
		d.ledger.comeBack(i, wasKilled, time.Now())
	}
	if err := d.startControllers(); err != nil {
		return err
	}
	d.view.say("both are started again; each lists every Stage first")
	if err := d.waitBack(ctx); err != nil {
		return err
	}
	d.view.say("their event sources run again")
	if err := d.api.reached(ctx, d.at(cutAt)); err != nil {
		return err
	}
	if err := d.cutLinks(ctx); err != nil {
		return err
	}
	d.view.say("the link of both controllers to NATS is cut; the processes live on")
	d.api.allow(d.events)
	if err := d.api.reached(ctx, d.at(mendAt)); err != nil {
		return err
	}
	if err := d.mendLinks(ctx); err != nil {
		return err
	}
	d.view.say("the link is back, and both are connected again; the next list is up to %v away", d.resync)
	return d.api.reached(ctx, d.events)
}

// finish waits until both controllers have caught up: the one on core NATS with its next list.
func (d *demo) finish(ctx context.Context) error {
	d.view.say("everything is published; waiting until every Stage is right")
	// A list may be late by a tenth, and the attempts it causes take a moment.
	bounded, cancel := context.WithTimeout(ctx, d.resync+d.resync/10+patience/2)
	defer cancel()
	_ = poll(bounded, d.ledger.quiet) // that it took too long is seen in the table
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_ = poll(bounded, func() bool {
		left, err := d.broker.unsettled(ctx)
		return err == nil && left == 0
	})
	return context.Cause(ctx)
}
