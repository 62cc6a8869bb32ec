package jsource_test

import (
	"context"
	"time"

	"github.com/google/uuid"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/list"
	"github.com/levelstream/jsource/reconciler/nats"
)

// What the README and the pages under docs show, so that it is compiled. The examples run the like.

func readmeController(ctx context.Context, conn *natsgo.Conn, listStagesWithOpenRequests func(context.Context) ([]string, error),
	reconcile reconciler.Func[string],
) error {
	requests := nats.NewTopic[uuid.UUID, promotionRequestRow]("kargo.promotionrequests")

	source := jsource.Mapped( // was nats.Mapped
		conn,
		requests,
		func(_ context.Context, e nats.Event[uuid.UUID, promotionRequestRow]) []string {
			row := e.New
			if row == nil {
				row = e.Old
			}
			return []string{row.Project + "/" + row.Stage}
		},
	).OnUpdate(func(old, updated promotionRequestRow) bool { return old.Phase != updated.Phase })

	c, err := reconciler.New[string]("fleet_stage").
		Watch(source, list.New(listStagesWithOpenRequests).Every(10*time.Minute)).
		Workers(4).
		Func(reconcile)
	if err != nil {
		return err
	}
	return c.Start(ctx)
}

func readmePublisher(ctx context.Context, conn *natsgo.Conn, requests nats.Topic[uuid.UUID, promotionRequestRow],
	id uuid.UUID, old, row promotionRequestRow, changeID string,
) error {
	pub, err := jsource.NewPublisher(conn)
	if err != nil {
		return err
	}
	receipt, err := jsource.PublishUpdated(ctx, pub, requests, id, old, row, jsource.MsgID(changeID))
	if err != nil {
		return err
	}
	return jsource.WaitReconciled(ctx, conn, "fleet_stage-kargo_promotionrequests", receipt) // if one must know
}

func docsMigrating(conn *natsgo.Conn, widgets nats.Topic[string, widget]) *widgetSource {
	source := jsource.Subject(conn, widgets).DeliverPolicy(jetstream.DeliverNewPolicy)
	return source
}

var _ = []any{readmeController, readmePublisher, docsMigrating}
