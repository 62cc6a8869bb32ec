package main

import (
	"context"
	"fmt"
	"time"
)

// event is one message, as far as its spans tell.
type event struct {
	send     *span
	delivery *span // the last
	attempt  *span // the last that covers it, nil if there is none
}

// took is from the call of publish to the confirmed settlement.
func (e *event) took() time.Duration { return e.delivery.end.Sub(e.send.start) }

// telling are the traces that are worth a look; nil is one that was not found.
type telling struct {
	slowest, redelivered, coalesced *event
}

// tell finds the most telling traces in Jaeger and prints links to them.
func (sh *show) tell(ctx context.Context) error {
	sh.say("looking for the most telling traces")
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var found telling
	// A Jaeger of somebody's may take a while until it finds what was sent.
	err := poll(bounded, "looking for traces in Jaeger", func() (bool, error) {
		spans, err := sh.jaeger.find(ctx, search{
			service: controllerName, name: "process " + promotionRequests.Prefix(), from: sh.began, to: time.Now(),
		})
		found = choose(spans)
		return found.slowest != nil && found.redelivered != nil && found.coalesced != nil, err
	})
	switch {
	case err == nil:
	case found == (telling{}):
		return fmt.Errorf("%w: none of this run has arrived; does it take OTLP/gRPC without TLS at %s (-otlp)?", err, sh.jaeger.otlp)
	default:
		return fmt.Errorf("%w: not every kind was found; publish longer or more (-duration, -rate)", err)
	}
	show := func(title string, e *event, format string, args ...any) {
		fmt.Fprintf(sh.out, "\n%s\n  %s\n  %s\n", title, fmt.Sprintf(format, args...), sh.jaeger.link(e.send.Trace))
	}
	e := found.slowest
	show("The slowest event that was delivered once", e, "%s: %v from publish to settled, attempt %s succeeded", e.delivery.attrs["messaging.message.id"],
		e.took().Round(time.Millisecond), e.attempt.attrs["jsource.attempt"])
	e = found.redelivered
	show("Redelivered after the kill", e, "%s: delivery %d settled it, %v after it was published",
		e.delivery.attrs["messaging.message.id"], e.delivery.number("jsource.delivery.count"), e.took().Round(time.Millisecond))
	e = found.coalesced
	show("Coalesced", e, "%d messages, reconciled by one attempt that took %v",
		e.attempt.number("jsource.owed"), e.attempt.end.Sub(e.attempt.start).Round(time.Millisecond))
	return nil
}

// eventsOf puts spans together: the send, the last delivery and the last attempt of each message that was settled by an
// ack.
func eventsOf(spans []*span) []*event {
	byRef := map[ref]*span{}
	for _, s := range spans {
		byRef[s.ref] = s
	}
	last := map[*span]*event{}
	var events []*event
	for _, s := range spans {
		send := byRef[ref{Trace: s.Trace, Span: s.parent}]
		if s.attrs["jsource.settlement"] != "ack" || send == nil {
			continue
		}
		e := last[send]
		if e == nil {
			e = &event{send: send}
			last[send] = e
			events = append(events, e)
		}
		if e.delivery == nil || s.end.After(e.delivery.end) {
			e.delivery, e.attempt = s, nil
			for _, l := range s.links {
				if a := byRef[l]; a != nil && (e.attempt == nil || a.end.After(e.attempt.end)) {
					e.attempt = a
				}
			}
		}
	}
	return events
}

// choose picks the telling ones, each from another trace if it can.
func choose(spans []*span) telling {
	var t telling
	events := eventsOf(spans)
	for _, e := range events {
		a := e.attempt
		if a == nil || a.parent != e.delivery.Span {
			continue // its attempt is a child of an older delivery: another trace shows it better
		}
		if t.coalesced == nil || a.number("jsource.owed") > t.coalesced.attempt.number("jsource.owed") {
			t.coalesced = e
		}
	}
	better := func(than, e *event, not ...*event) bool {
		for _, n := range not {
			if n != nil && n.send == e.send {
				return false
			}
		}
		return e.attempt != nil && (than == nil || e.took() > than.took())
	}
	for _, e := range events {
		// What the kill held up is for the next one.
		if e.delivery.number("jsource.delivery.count") == 1 && better(t.slowest, e, t.coalesced) {
			t.slowest = e
		}
	}
	for _, e := range events {
		if e.delivery.number("jsource.delivery.count") > 1 && better(t.redelivered, e, t.coalesced, t.slowest) {
			t.redelivered = e
		}
	}
	return t
}
