package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// controllerState is one of the two controllers, whichever process it is.
type controllerState struct {
	child *child
	tail  *tail
	back  chan struct{} // closed when the event sources of the present process are running

	mu          sync.Mutex
	cut         chan struct{} // closed when its link is cut
	reconnected chan struct{} // closed when it is connected again
}

var statusFile = [2]string{"statuses-core", "statuses-jetstream"}

// startControllers starts both controllers, each in a process of its own.
func (d *demo) startControllers() error {
	for i, c := range d.controllers {
		back := make(chan struct{})
		var err error
		c.back = back
		c.child, err = startChild(names[i], order{
			JetStream: i == jetStream,
			URL:       d.broker.url,
			Creds:     d.creds,
			Topic:     d.broker.topic.Prefix(),
			Requests:  d.file("requests"),
			Statuses:  d.file(statusFile[i]),
			Resync:    d.resync,
		}, func(r report, at time.Time) {
			switch r.Kind {
			case reportBack:
				d.ledger.end(i, at)
				close(back)
			case reportCut:
				c.note(&c.cut)
			case reportReconnected:
				d.ledger.end(i, at)
				c.note(&c.reconnected)
			case reportCounts:
				d.ledger.counts(i, r)
			}
		})
		if err != nil {
			return err
		}
		d.background(c.child.watch)
	}
	return nil
}

// expect returns a channel that the next note of the same happening closes.
func (c *controllerState) expect(happening *chan struct{}) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	*happening = make(chan struct{})
	return *happening
}

// note tells who waits for a happening, if somebody does.
func (c *controllerState) note(happening *chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *happening != nil {
		close(*happening)
		*happening = nil
	}
}

// waitBack waits until the event sources of both controllers are running.
func (d *demo) waitBack(ctx context.Context) error {
	for _, c := range d.controllers {
		if err := c.child.wait(ctx, "running", c.back); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) killControllers() {
	var killing sync.WaitGroup
	for i, c := range d.controllers {
		d.ledger.begin(i, wasKilled, time.Now())
		killing.Go(func() {
			c.child.kill()
			c.child = nil
			d.ledger.killed(i)
		})
	}
	killing.Wait()
}

// cutLinks cuts the links of the controllers to NATS, and waits until they are.
func (d *demo) cutLinks(ctx context.Context) error {
	return d.order(ctx, cutLink, func(c *controllerState) *chan struct{} { return &c.cut },
		func(i int) { d.ledger.begin(i, wasCut, time.Now()) })
}

// mendLinks lets the controllers connect again, and waits until they have.
func (d *demo) mendLinks(ctx context.Context) error {
	return d.order(ctx, mendLink, func(c *controllerState) *chan struct{} { return &c.reconnected },
		func(i int) { d.ledger.comeBack(i, wasCut, time.Now()) })
}

// order tells both controllers something and waits until it happens. Before each is told, note is called.
func (d *demo) order(
	ctx context.Context, line string, happening func(*controllerState) *chan struct{}, note func(i int),
) error {
	var happens [2]<-chan struct{}
	for i, c := range d.controllers {
		happens[i] = c.expect(happening(c))
		note(i)
		if err := c.child.tell(line); err != nil {
			return fmt.Errorf("telling the controller on %s to %s its link: %w", names[i], line, err)
		}
	}
	for i, c := range d.controllers {
		if err := c.child.wait(ctx, "done with the order to "+line+" its link", happens[i]); err != nil {
			return err
		}
	}
	return nil
}

// stop stops the controllers, if they run.
func (d *demo) stop() error {
	errs := make([]error, len(d.controllers))
	var stopping sync.WaitGroup
	for i, c := range d.controllers {
		if c == nil || c.child == nil {
			continue
		}
		stopping.Go(func() { errs[i] = c.child.stop() })
	}
	stopping.Wait()
	return errors.Join(errs...)
}
