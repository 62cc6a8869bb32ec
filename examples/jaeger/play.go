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
)

// When things happen, in percent of the events.
const (
	killAt  = 40
	startAt = 55
)

// show is one run.
type show struct {
	settings
	out    io.Writer
	began  time.Time
	jaeger *jaeger
	broker *broker
	load   *load
	child  *child // nil while it is dead
}

// play runs the example. What it has made is gone when it returns.
func play(ctx context.Context, s settings, out io.Writer) (err error) {
	sh := &show{settings: s, out: out, began: time.Now()}
	dir, err := os.MkdirTemp("", "jsource-jaeger-")
	if err != nil {
		return fmt.Errorf("making a folder for the run: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if s.jaeger != "" {
		sh.jaeger, err = useJaeger(ctx, s.jaeger, s.otlp)
	} else {
		sh.say("starting Jaeger")
		sh.jaeger, err = startJaeger(ctx, filepath.Join(dir, "jaeger"))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sh.jaeger.close()) }()
	sh.say("Jaeger is at %s and takes OTLP at %s", sh.jaeger.url, sh.jaeger.otlp)
	if err := sh.perform(ctx, filepath.Join(dir, "nats")); err != nil {
		return err
	}
	if err := sh.tell(ctx); err != nil {
		return err
	}
	if s.keep {
		fmt.Fprintln(out, "\nCtrl-C ends this; until then the links lead somewhere.")
		select {
		case <-ctx.Done():
		case <-sh.jaeger.exited: // nil, so never, if it is somebody's
			return fmt.Errorf("jaeger has ended by itself; the end of its log:\n%s", sh.jaeger.log)
		}
	}
	return nil
}

// say prints a line with the time since the start.
func (sh *show) say(format string, args ...any) {
	fmt.Fprintf(sh.out, "%5.1f s  %s\n", time.Since(sh.began).Seconds(), fmt.Sprintf(format, args...))
}

// perform publishes, kills, starts again and waits until all is settled and every span is in Jaeger.
func (sh *show) perform(ctx context.Context, dir string) (err error) {
	provider, err := setUpTracing(ctx, publisherService, sh.jaeger.otlp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shutDown(ctx, provider)) }()
	if sh.broker, err = startBroker(dir); err != nil {
		return err
	}
	defer sh.broker.close()
	if sh.load, err = newLoad(sh.broker.conn); err != nil {
		return err
	}
	defer func() {
		if sh.child != nil {
			err = errors.Join(err, sh.child.stop()) // it sends its last spans
		}
	}()
	if err := sh.start(ctx); err != nil {
		return err
	}
	total := int(sh.duration.Seconds() * float64(sh.rate))
	sh.say("the controller runs; publishing %d PromotionRequests, %d a second", total, sh.rate)

	ctx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	inBackground := func(fn func() error) {
		running.Go(func() {
			if err := fn(); err != nil {
				cancel(err)
			}
		})
	}
	inBackground(func() error { return sh.load.run(ctx, total, sh.rate) })
	inBackground(func() error { sh.progress(ctx); return nil })
	return sh.story(ctx, total)
}

// story is what happens while PromotionRequests are published.
func (sh *show) story(ctx context.Context, total int) error {
	if err := sh.reached(ctx, total*killAt/100); err != nil {
		return err
	}
	held := 0
	if err := poll(ctx, "waiting until the controller holds messages", func() (bool, error) {
		c, err := sh.broker.counts(ctx)
		held = c.unsettled
		return held > 0, err
	}); err != nil {
		return err
	}
	sh.child.kill()
	sh.child = nil
	sh.say("SIGKILL: the controller is gone, with about %d messages in its hands", held)
	if err := sh.reached(ctx, total*startAt/100); err != nil {
		return err
	}
	if err := sh.start(ctx); err != nil {
		return err
	}
	sh.say("the controller runs again")
	if err := sh.reached(ctx, total); err != nil {
		return err
	}
	sh.say("everything is published; waiting until all of it is settled")
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := poll(bounded, "waiting until every message is settled", func() (bool, error) {
		c, err := sh.broker.counts(ctx)
		return c == counts{}, err
	}); err != nil {
		return err
	}
	sh.say("every message is settled")
	return nil
}

func (sh *show) start(ctx context.Context) (err error) {
	sh.child, err = startChild(ctx, instructions{NATS: sh.broker.server.ClientURL(), OTLP: sh.jaeger.otlp})
	return err
}

// reached waits until n PromotionRequests are published.
func (sh *show) reached(ctx context.Context, n int) error {
	return poll(ctx, "waiting for the publisher", func() (bool, error) { return sh.load.published.Load() >= int64(n), nil })
}

// progress prints how things are, every two seconds until ctx ends.
func (sh *show) progress(ctx context.Context) {
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if c, err := sh.broker.counts(ctx); err == nil {
			sh.say("%d published, %d handed out and not settled, %d waiting", sh.load.published.Load(), c.unsettled, c.waiting)
		}
	}
}
