// Package metrics is what this module counts, through OpenTelemetry's metric API: set a meter provider with
// otel.SetMeterProvider before a controller starts. Without one nothing is collected. (On a controller-runtime
// manager's metrics endpoint: kube.MeterProvider.)
//
// No label holds a key, a subject or a request: the number of series does not grow with them. Counters of a
// source or controller that has ended stay as they are, until another of the same name goes on from zero.
//
// Of each source, with the labels jsource.controller, jsource.topic and messaging.consumer.group.name (the
// durable):
//
//	jsource.event_to_reconcile.duration   s, histogram: from an event's being stored to its last owed request's being
//	                                      reconciled; its exemplars lead to the delivery's trace
//	messaging.client.consumed.messages    deliveries that arrived
//	jsource.redeliveries                  those of them that were not their message's first, in whichever replica that was
//	jsource.messages.settled              by jsource.settlement: ack, term, given_back or forgotten
//	jsource.copies                        by jsource.copy, what became of them: absorbed or repeated (got the verdict again)
//	jsource.messages.unsettled            messages this process holds now
//	jsource.messages.unsettled.limit      how many may be unsettled, over all replicas (MaxAckPending)
//	jsource.messages.unsettled.age        s: since when the oldest of them is stored; 0 if there are none
//	jsource.messages.pending              messages not handed out yet, when the server was last asked
//	jsource.heartbeats                    sent
//	jsource.verdicts.unconfirmed          verdicts that the server did not confirm within the bound
//	jsource.recoveries                    durables and streams made anew
//	jsource.dead_letters                  stored, by jsource.reason: undecodable, terminal, attempts or deliveries
//	jsource.source.healthy                1 while it consumes and what it consumes is worked on, else 0
//
// Of each controller, with the label jsource.controller:
//
//	jsource.requests                      pushed, by jsource.source
//	jsource.requests.owed                 requests that messages owe now
//	jsource.attempts                      that ended, by jsource.outcome: success, unfinished, failed, cut or dead
//	jsource.queue.depth                   requests that wait now, without those that are delayed
//	jsource.queue.wait.duration           s, histogram: from a request's being queued to its attempt
//	jsource.resync.attempts               attempts that only the resync caused, on requests that no message owed
//	jsource.resync.changes                those of them whose Result says Changed: work that events missed
package metrics
