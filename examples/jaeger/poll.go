package main

import (
	"context"
	"fmt"
	"time"
)

// poll waits until is returns true. What it was doing is said when ctx ends before that.
func poll(ctx context.Context, doing string, is func() (bool, error)) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		done, err := is()
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
