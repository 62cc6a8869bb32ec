package jsource_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
	"github.com/levelstream/jsource/reconciler/list"
	"github.com/levelstream/jsource/reconciler/nats"
)

// promotionRequestRow is a promotion request as the store has it.
type promotionRequestRow struct {
	Project string `json:"project"`
	Stage   string `json:"stage"`
	Phase   string `json:"phase"`
}

// A reconciler of Stages whose promotion requests live in a database. All that made its source durable is the
// name of the package.
func Example_promotionRequests() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	listStagesWithOpenRequests := func(context.Context) ([]reconcile.Request, error) { return nil, nil }

	// Declared once beside the store in the real code.
	requestEvents := nats.NewTopic[uuid.UUID, promotionRequestRow]("kargo.promotionrequests")

	sources := []reconciler.Source[reconcile.Request]{
		// Event sources first, so they are subscribed while the resync lists.
		jsource.Mapped(
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
			// The counterpart of a phase-changed predicate.
			OnUpdate(func(old, updated promotionRequestRow) bool { return old.Phase != updated.Phase }),
	}
	// Stages with requests in flight, in case an event was lost.
	sources = append(sources, list.New(listStagesWithOpenRequests).Every(2*time.Minute))

	b := reconciler.New[reconcile.Request]("fleet_stage").Workers(4)
	for _, src := range sources {
		b = b.Watch(src)
	}
	c, err := b.Func(func(_ context.Context, req reconcile.Request) (reconciler.Result, error) {
		fmt.Println("reconciling stage", req)
		stop() // a real controller runs on
		return reconciler.Result{}, nil
	})
	if err != nil {
		log.Fatal(err)
	}

	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	id := uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	pending := promotionRequestRow{Project: "demo", Stage: "quiet", Phase: "Pending"}
	running := promotionRequestRow{Project: "demo", Stage: "prod", Phase: "Running"}
	for _, err := range []error{
		requestEvents.PublishUpdated(publisher, id, pending, pending), // the filter keeps it out
		requestEvents.PublishUpdated(publisher, id, pending, running),
	} {
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: reconciling stage demo/prod
}

// targetKey and targetRow are a target as the store has it.
type targetKey struct {
	Project string `json:"project"`
	Name    string `json:"name"`
}

type targetRow struct {
	Labels map[string]string `json:"labels"`
	Params []byte            `json:"params"`
	Status string            `json:"status"`
}

// A reconciler of Stages that listens to the targets they govern: before a change, or after it.
func Example_targets() {
	conn, gone := connect() // nats.Connect(url)
	defer gone()
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	var c client.Reader = stages{} // mgr.GetClient()

	// Declared once beside the store in the real code.
	targetEvents := nats.NewTopic[targetKey, targetRow]("kargo.targets")

	targetsToStages := jsource.Mapped(
		conn,
		targetEvents,
		func(ctx context.Context, e nats.Event[targetKey, targetRow]) []reconcile.Request {
			stages := &StageList{}
			if err := c.List(ctx, stages, client.InNamespace(e.Key.Project)); err != nil {
				slog.ErrorContext(ctx, "error listing Stages for Target event", "error", err)
				return nil
			}
			var reqs []reconcile.Request
			for i := range stages.Items {
				stage := &stages.Items[i]
				selectors, err := TargetSelectorsForStage(stage)
				if err != nil || len(selectors) == 0 {
					continue
				}
				governedBefore := e.Old != nil && AnySelectorMatches(selectors, e.Old.Labels)
				governedAfter := e.New != nil && AnySelectorMatches(selectors, e.New.Labels)
				if governedBefore || governedAfter {
					reqs = append(reqs, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(stage)})
				}
			}
			return reqs
		},
	).OnUpdate(func(old, updated targetRow) bool {
		return !maps.Equal(old.Labels, updated.Labels) || !bytes.Equal(old.Params, updated.Params)
	})

	// Added to the fleet Stage controller alongside its Kubernetes sources.
	reconciled := 0
	controller, err := reconciler.New[reconcile.Request]("fleet_stage").Watch(targetsToStages).
		Func(func(_ context.Context, req reconcile.Request) (reconciler.Result, error) {
			fmt.Println("reconciling stage", req)
			if reconciled++; reconciled == 2 {
				stop() // a real controller runs on
			}
			return reconciler.Result{}, nil
		})
	if err != nil {
		log.Fatal(err)
	}

	publisher, err := jsource.NewPublisher(conn)
	if err != nil {
		log.Fatal(err)
	}
	key := targetKey{Project: "demo", Name: "cluster-1"}
	eu := targetRow{Labels: map[string]string{"region": "eu"}}
	us := targetRow{Labels: map[string]string{"region": "us"}}
	busy := eu
	busy.Status = "busy"
	for _, err := range []error{
		targetEvents.PublishUpdated(publisher, key, eu, busy), // neither labels nor params: the filter keeps it out
		targetEvents.PublishUpdated(publisher, key, eu, us),
	} {
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := controller.Start(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// reconciling stage demo/eu
	// reconciling stage demo/us
}

// Stage stands in for a Kubernetes kind that governs the targets its selector matches.
type Stage struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Selector map[string]string
}

// StageList stands in for its list.
type StageList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []Stage
}

func (s *Stage) DeepCopyObject() runtime.Object {
	c := *s
	return &c
}

func (l *StageList) DeepCopyObject() runtime.Object {
	c := *l
	return &c
}

// TargetSelectorsForStage and AnySelectorMatches stand in for functions that a Stage's API has.
func TargetSelectorsForStage(s *Stage) ([]map[string]string, error) {
	return []map[string]string{s.Selector}, nil
}

func AnySelectorMatches(selectors []map[string]string, labels map[string]string) bool {
	for _, selector := range selectors {
		matches := true
		for key, value := range selector {
			matches = matches && labels[key] == value
		}
		if matches {
			return true
		}
	}
	return false
}

// stages stands in for a client of a cluster that has three of them, one for each region.
type stages struct{}

func (stages) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return fmt.Errorf("not needed")
}

func (stages) List(_ context.Context, l client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	items := &l.(*StageList).Items
	for _, region := range []string{"eu", "us", "asia"} {
		*items = append(*items, Stage{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: region},
			Selector:   map[string]string{"region": region},
		})
	}
	return nil
}
