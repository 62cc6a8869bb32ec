package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	natsgo "github.com/nats-io/nats.go"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/examples/fleetstage/kargoapi"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler/nats"
)

// overCoreNATS are promotion requests in the database, as the controller watched them before: an event that comes
// while nobody leads is gone.
func overCoreNATS(conn *natsgo.Conn, requestEvents nats.Topic[uuid.UUID, promotionRequestRow]) stageSource {
	return nats.Mapped(
		conn,
		requestEvents,
		func(_ context.Context, e nats.Event[uuid.UUID, promotionRequestRow]) []reconcile.Request {
			row := e.New
			if row == nil {
				row = e.Old
			}
			return []reconcile.Request{{
				NamespacedName: client.ObjectKey{Namespace: row.Project, Name: row.Stage},
			}}
		},
	).
		// The counterpart of the predicate that the phase changed.
		OnUpdate(func(old, updated promotionRequestRow) bool { return old.Phase != updated.Phase })
}

// overJetStream is the same with one other word, and loses nothing. A test compares the two.
func overJetStream(conn *natsgo.Conn, requestEvents nats.Topic[uuid.UUID, promotionRequestRow]) stageSource {
	return jsource.Mapped(
		conn,
		requestEvents,
		func(_ context.Context, e nats.Event[uuid.UUID, promotionRequestRow]) []reconcile.Request {
			row := e.New
			if row == nil {
				row = e.Old
			}
			return []reconcile.Request{{
				NamespacedName: client.ObjectKey{Namespace: row.Project, Name: row.Stage},
			}}
		},
	).
		// The counterpart of the predicate that the phase changed.
		OnUpdate(func(old, updated promotionRequestRow) bool { return old.Phase != updated.Phase })
}

// targetsToStages are Targets, mapped to the Stages that govern them or did so before. TryMapped, since the mapper
// lists Stages: when that fails, the event is handed out again.
func targetsToStages(conn *natsgo.Conn, targetEvents nats.Topic[targetKey, targetRow], c client.Reader) stageSource {
	return jsource.TryMapped(
		conn,
		targetEvents,
		func(ctx context.Context, e nats.Event[targetKey, targetRow]) ([]reconcile.Request, error) {
			stages := &kargoapi.StageList{}
			if err := c.List(ctx, stages, client.InNamespace(e.Key.Project)); err != nil {
				return nil, fmt.Errorf("listing Stages for an event of a Target: %w", err)
			}
			var reqs []reconcile.Request
			for i := range stages.Items {
				stage := &stages.Items[i]
				selectors, err := targetSelectorsForStage(stage)
				if err != nil {
					slog.Default().Warn("a Stage governs nothing", "error", err)
					continue
				}
				governedBefore := e.Old != nil && anySelectorMatches(selectors, e.Old.Labels)
				governedAfter := e.New != nil && anySelectorMatches(selectors, e.New.Labels)
				if governedBefore || governedAfter {
					reqs = append(reqs, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(stage)})
				}
			}
			return reqs, nil
		},
	).OnUpdate(labelsOrParamsChanged)
}
