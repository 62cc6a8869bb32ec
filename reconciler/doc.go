// Package reconciler is a small engine for level-triggered controllers: sources push requests, a
// de-duplicating work queue collects them, workers hand each to a [Reconciler].
//
//	Source ─┐
//	Source ─┼─▶ work queue ─▶ workers ─▶ Reconcile(request)
//	Source ─┘   (client-go)              │
//	                ▲                    ├─ nil error: done; RequeueAfter: again later
//	                └──── backoff ───────┴─ error or panic: again, later each time
//
// A request is never worked on twice at once in one process, and waits in the queue only once however
// often it is pushed. Requests of event sources go before those that only a periodic list asks for.
//
// A Controller is built and started like this:
//
//	c, err := reconciler.New[string]("invoices").
//		Watch(events, list.New(open).Every(10*time.Minute)).
//		Workers(4).
//		Func(func(ctx context.Context, id string) (reconciler.Result, error) { … })
//	if err != nil { … }
//	err = c.Start(ctx) // until ctx ends, then stops cleanly
//
// Sources are found in reconciler/nats (core NATS), reconciler/list (a periodic list), reconciler/kube
// (Kubernetes kinds) and jsource (durable JetStream).
package reconciler
