package reconciler

import "context"

// Source pushes requests into a controller.
//
// Start returns once the source is running (a list source: once its first list has been pushed), or
// with an error when it cannot run; it must not block for the source's lifetime. The source goes on
// pushing to out from goroutines of its own until ctx ends; it never closes out. Each source of a
// Controller gets a channel of its own, which the Controller reads until the source's ctx ends, so a
// push must give up when ctx ends.
type Source[request any] interface {
	Start(ctx context.Context, out chan<- request) error
}
