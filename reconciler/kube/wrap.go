package kube

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/queue"
)

// Wrap returns r as one whose outcomes settle what t says is owed; see [queue.Wrap]. It belongs innermost. A
// reconcile.TerminalError makes dead letters, as this module's does; Requeue means that the work is not done
// yet, so the request stays owed; RequeueAfter with a nil error is a success.
func Wrap[request comparable](t *queue.Tracker[request], r reconcile.TypedReconciler[request]) reconcile.TypedReconciler[request] {
	return WrapPolicy(t, Outcome, r)
}

// WrapPolicy is [Wrap] with a policy of one's own.
func WrapPolicy[request comparable](t *queue.Tracker[request], policy queue.Policy[reconcile.Result],
	r reconcile.TypedReconciler[request],
) reconcile.TypedReconciler[request] {
	wrapped := queue.WrapPolicy(t, policy, r.Reconcile)
	return reconcile.TypedFunc[request](func(ctx context.Context, req request) (reconcile.Result, error) {
		res, err := wrapped(ctx, req)
		if queue.IsTerminal(err) && !isTerminal(err) {
			err = reconcile.TerminalError(err) // so that controller-runtime does not retry it either
		}
		return res, err
	})
}

// Outcome is the policy of [Wrap].
func Outcome(res reconcile.Result, err error) queue.Outcome {
	switch {
	case isTerminal(err):
		return queue.Dead
	//lint:ignore SA1019 deprecated, and in use
	case err == nil && res.Requeue:
		return queue.Unfinished
	default:
		return queue.DefaultPolicy(res, err)
	}
}

func isTerminal(err error) bool { return errors.Is(err, reconcile.TerminalError(nil)) }
