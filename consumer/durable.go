package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// wantedDurable is the durable as it should be.
func (c *Consumer) wantedDurable() jetstream.ConsumerConfig {
	cfg := jetstream.ConsumerConfig{
		Durable:       c.cfg.Durable,
		Description:   "made by jsource",
		DeliverPolicy: c.cfg.DeliverPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       c.cfg.AckWait,
		MaxAckPending: c.cfg.MaxAckPending,
		MaxDeliver:    -1, // a message handed out too often would be lost without a trace
		Metadata:      map[string]string{},

		InactiveThreshold: c.cfg.InactiveThreshold,
	}
	maps.Copy(cfg.Metadata, c.cfg.Metadata)
	maps.Copy(cfg.Metadata, c.cfg.Owner)
	if len(c.cfg.Subjects) == 1 {
		cfg.FilterSubject = c.cfg.Subjects[0]
	} else {
		cfg.FilterSubjects = c.cfg.Subjects
	}
	return cfg
}

// provisionDurable makes the durable or, if it exists, checks it and updates what may be updated.
func (c *Consumer) provisionDurable(ctx context.Context, stream jetstream.Stream) error {
	cons, err := stream.Consumer(ctx, c.cfg.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		if c.cfg.Bind {
			return fmt.Errorf("durable %q of stream %q does not exist, and Bind forbids to make it: create it",
				c.cfg.Durable, c.stream)
		}
		cons, err = stream.CreateConsumer(ctx, c.wantedDurable())
		if errors.Is(err, jetstream.ErrConsumerExists) {
			cons, err = stream.Consumer(ctx, c.cfg.Durable) // another replica was faster
		}
	}
	if err != nil {
		return fmt.Errorf("provisioning durable %q of stream %q: %w", c.cfg.Durable, c.stream, err)
	}
	info, err := c.checkDurable(ctx, cons.CachedInfo())
	if err != nil {
		return err
	}
	c.use(info)
	c.durableMade, c.floor = info.Created, info.AckFloor.Stream
	c.health.pending, c.health.acks = info.NumPending, info.NumAckPending
	return nil
}

// refusal compares an existing durable with the one wanted and refuses, by name, a field that would lose or
// mistime messages. deliver_policy and where it starts matter only when a durable is made, and are not
// looked at.
func (c *Consumer) refusal(info *jetstream.ConsumerInfo) error {
	is, want := &info.Config, c.wantedDurable()
	refuse := func(field string, is, want any) error {
		return fmt.Errorf("durable %q of stream %q cannot be used: its %s is %v, and should be %v; delete the durable, "+
			"choose another name, or (if it is meant to be so) use Bind", c.cfg.Durable, c.stream, field, is, want)
	}
	never := func(field string, is, want any, why string) error {
		return fmt.Errorf("durable %q of stream %q cannot be used, not even with Bind: its %s is %v, and must be %v: %s",
			c.cfg.Durable, c.stream, field, is, want, why)
	}
	switch {
	case is.AckPolicy != jetstream.AckExplicitPolicy:
		return never("ack_policy", is.AckPolicy, want.AckPolicy, "each message is settled by itself")
	case len(is.PriorityGroups) > 0:
		return never("priority_groups", is.PriorityGroups, "unset", "pulls belong to no group")
	case c.cfg.Bind:
		return nil
	case is.MaxDeliver > 0:
		return refuse("max_deliver", is.MaxDeliver, want.MaxDeliver)
	case len(is.BackOff) > 0:
		return refuse("backoff", is.BackOff, "unset")
	case is.HeadersOnly:
		return refuse("headers_only", true, false)
	case !slices.Equal(filters(is), filters(&want)):
		return refuse("filter", filters(is), filters(&want))
	}
	for key, value := range c.cfg.Owner {
		if other, ok := is.Metadata[key]; ok && other != value {
			return fmt.Errorf("durable %q of stream %q belongs to somebody else: its metadata says %s is %q, and this is %q; "+
				"choose another name with Durable", c.cfg.Durable, c.stream, key, other, value)
		}
	}
	return nil
}

// checkDurable checks an existing durable and updates what may be updated: AckWait and MaxAckPending.
func (c *Consumer) checkDurable(ctx context.Context, info *jetstream.ConsumerInfo) (*jetstream.ConsumerInfo, error) {
	if err := c.refusal(info); err != nil || c.cfg.Bind {
		return info, err
	}
	is, want := &info.Config, c.wantedDurable()
	update := *is
	update.AckWait, update.MaxAckPending = want.AckWait, want.MaxAckPending
	update.Metadata = maps.Clone(is.Metadata)
	if update.Metadata == nil {
		update.Metadata = map[string]string{}
	}
	maps.Copy(update.Metadata, want.Metadata)
	changed := update.AckWait != is.AckWait || update.MaxAckPending != is.MaxAckPending ||
		!maps.Equal(update.Metadata, is.Metadata)
	if !changed {
		return info, nil
	}
	cons, err := c.js.UpdateConsumer(ctx, c.stream, update)
	if err != nil {
		return nil, fmt.Errorf("updating durable %q of stream %q (ack_wait %v → %v, max_ack_pending %d → %d): %w",
			c.cfg.Durable, c.stream, is.AckWait, update.AckWait, is.MaxAckPending, update.MaxAckPending, err)
	}
	c.cfg.Logger.Info("durable updated", "stream", c.stream, "durable", c.cfg.Durable,
		"ack_wait", update.AckWait, "was", is.AckWait,
		"max_ack_pending", update.MaxAckPending, "max_ack_pending_was", is.MaxAckPending)
	return cons.CachedInfo(), nil
}

// use takes in the durable's settings as the server reports them. After Start the caller holds mu.
func (c *Consumer) use(info *jetstream.ConsumerInfo) {
	cfg := info.Config
	c.clustered = info.Cluster != nil
	if cfg.MaxAckPending <= 0 {
		cfg.MaxAckPending = c.cfg.MaxAckPending // bound, and unlimited: memory has to be bounded by something
	}
	c.durable = cfg
	c.pull.limit = min(c.pull.most, cfg.MaxAckPending)
}

// filters are the subjects a durable is filtered to, sorted.
func filters(cfg *jetstream.ConsumerConfig) []string {
	list := slices.Clone(cfg.FilterSubjects)
	if cfg.FilterSubject != "" {
		list = append(list, cfg.FilterSubject)
	}
	slices.Sort(list)
	return list
}
