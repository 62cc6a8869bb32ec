package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/levelstream/jsource/examples/fleetstage/kargoapi"
	"github.com/levelstream/jsource/examples/fleetstage/rolloutsapi"
)

// scene is what users do, and what they look at: Stages, with a client as plain as kubectl.
type scene struct {
	client  client.Client
	project string
	db      *database
	out     io.Writer
}

const warehouse = "main"

// The Stages of the scene: Freight goes from the Warehouse to test, and from there to prod.
func (s *scene) stages() []*kargoapi.Stage {
	stage := func(name string, r kargoapi.FreightRequest) *kargoapi.Stage {
		r.Origin = warehouse
		return &kargoapi.Stage{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.project, Name: name},
			Spec: kargoapi.StageSpec{
				RequestedFreight: []kargoapi.FreightRequest{r},
				PromotionSteps:   []string{"render", "push"},
				TargetSelectors:  []metav1.LabelSelector{{MatchLabels: map[string]string{"env": name}}},
			},
		}
	}
	test := stage("test", kargoapi.FreightRequest{Direct: true})
	prod := stage("prod", kargoapi.FreightRequest{Stages: []string{"test"}})
	gate := stage("gate", kargoapi.FreightRequest{Direct: true}) // control flow
	gate.Spec.PromotionSteps = nil
	other := stage("other", kargoapi.FreightRequest{Direct: true}) // another controller's
	other.Labels = map[string]string{kargoapi.ShardLabel: "elsewhere"}
	return []*kargoapi.Stage{test, prod, gate, other}
}

func (s *scene) play(ctx context.Context, f flags) error {
	for _, stage := range s.stages() {
		if err := s.client.Create(ctx, stage); err != nil {
			return fmt.Errorf("creating Stage %s: %w", stage.Name, err)
		}
	}
	acts := []func(context.Context) error{s.freight, s.refresh}
	if f.variant == kinds {
		acts = append(acts, s.promotionRequests)
	} else {
		acts = append(acts, s.promotionRequestRows)
	}
	if f.variant == withTargets {
		acts = append(acts, s.targets)
	}
	if f.rollouts {
		acts = append(acts, s.analysisRuns)
	}
	for _, act := range append(acts, s.others) {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return s.print(ctx)
}

// expect waits until the status of a Stage is as it should be.
func (s *scene) expect(ctx context.Context, stage, what string, is func(kargoapi.StageStatus) bool) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for {
		var got kargoapi.Stage
		err := s.client.Get(ctx, client.ObjectKey{Namespace: s.project, Name: stage}, &got)
		if err == nil && is(got.Status) {
			fmt.Fprintf(s.out, "%6.0f ms  Stage %s: %s\n", time.Since(began).Seconds()*1000, stage, what)
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("stage %s: it never came to this: %s; its status is %+v", stage, what, got.Status), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// freight comes out of the Warehouse, is verified in test, and some is approved for prod by hand.
func (s *scene) freight(ctx context.Context) error {
	available := func(names ...string) func(kargoapi.StageStatus) bool {
		return func(st kargoapi.StageStatus) bool { return slices.Equal(st.AvailableFreight, names) }
	}
	first, second := s.newFreight("f1"), s.newFreight("f2")
	for _, f := range []*kargoapi.Freight{first, second} {
		if err := s.client.Create(ctx, f); err != nil {
			return fmt.Errorf("creating Freight: %w", err)
		}
	}
	if err := s.expect(ctx, "test", "the Warehouse's Freight is available", available("f1", "f2")); err != nil {
		return err
	}
	first.Status.VerifiedIn = map[string]bool{"test": true}
	if err := s.client.Status().Update(ctx, first); err != nil {
		return fmt.Errorf("verifying Freight: %w", err)
	}
	if err := s.expect(ctx, "prod", "what test has verified is available", available("f1")); err != nil {
		return err
	}
	second.Status.ApprovedFor = map[string]bool{"prod": true}
	if err := s.client.Status().Update(ctx, second); err != nil {
		return fmt.Errorf("approving Freight: %w", err)
	}
	return s.expect(ctx, "prod", "what is approved is available", available("f1", "f2"))
}

func (s *scene) newFreight(name string) *kargoapi.Freight {
	return &kargoapi.Freight{ObjectMeta: metav1.ObjectMeta{Namespace: s.project, Name: name}, Origin: warehouse}
}

// refresh is asked for with an annotation.
func (s *scene) refresh(ctx context.Context) error {
	stage := &kargoapi.Stage{ObjectMeta: metav1.ObjectMeta{Namespace: s.project, Name: "test"}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"now"}}}`, kargoapi.AnnotationRefresh)
	if err := s.client.Patch(ctx, stage, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return fmt.Errorf("asking for a refresh: %w", err)
	}
	return s.expect(ctx, "test", "it was refreshed", func(st kargoapi.StageStatus) bool { return st.HandledRefresh == "now" })
}

// phases are what a promotion request goes through, and what its Stage says of it.
func (s *scene) phases(ctx context.Context, set func(phase string) error) error {
	for _, phase := range []string{kargoapi.PhasePending, kargoapi.PhaseRunning, kargoapi.PhaseSucceeded} {
		if err := set(phase); err != nil {
			return fmt.Errorf("a promotion request becomes %s: %w", phase, err)
		}
		open := 1
		if kargoapi.Terminal(phase) {
			open = 0
		}
		if err := s.expect(ctx, "prod", "its promotion request is "+phase, func(st kargoapi.StageStatus) bool {
			return st.OpenRequests == open && st.LastRequest == "f1 "+phase
		}); err != nil {
			return err
		}
	}
	return nil
}

// promotionRequests are objects that their Stage owns.
func (s *scene) promotionRequests(ctx context.Context) error {
	var stage kargoapi.Stage
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.project, Name: "prod"}, &stage); err != nil {
		return err
	}
	r := &kargoapi.PromotionRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.project, Name: "promote-f1"},
		Spec:       kargoapi.PromotionRequestSpec{Stage: "prod", Freight: "f1"},
	}
	if err := controllerutil.SetControllerReference(&stage, r, s.client.Scheme()); err != nil {
		return err
	}
	if err := s.client.Create(ctx, r); err != nil {
		return fmt.Errorf("creating a PromotionRequest: %w", err)
	}
	return s.phases(ctx, func(phase string) error {
		r.Status.Phase = phase
		return s.client.Status().Update(ctx, r)
	})
}

// promotionRequestRows are rows whose changes are published.
func (s *scene) promotionRequestRows(ctx context.Context) error {
	row := promotionRequestRow{ID: uuid.New(), Project: s.project, Stage: "prod", Freight: "f1"}
	return s.phases(ctx, func(phase string) error {
		row.Phase = phase
		return s.db.CommitRequest(row)
	})
}

// targets are rows that Stages govern by labels.
func (s *scene) targets(ctx context.Context) error {
	key := targetKey{Project: s.project, Name: "cluster-1"}
	row := func(env, params string) targetRow {
		return targetRow{Labels: map[string]string{"env": env}, Params: json.RawMessage(params)}
	}
	governs := func(targets ...string) func(kargoapi.StageStatus) bool {
		return func(st kargoapi.StageStatus) bool { return slices.Equal(st.Targets, targets) }
	}
	for _, step := range []struct {
		row         targetRow
		stage, what string
		is          func(kargoapi.StageStatus) bool
	}{
		{row("test", `{"replicas":1}`), "test", "it governs a new Target", governs(`cluster-1 {"replicas":1}`)},
		{row("test", `{"replicas":2}`), "test", "the Target's params have changed", governs(`cluster-1 {"replicas":2}`)},
		{row("prod", `{"replicas":2}`), "prod", "the Target has moved here", governs(`cluster-1 {"replicas":2}`)},
		{row("prod", `{"replicas":2}`), "test", "the Target has moved away", governs()},
	} {
		if err := s.db.CommitTarget(key, step.row); err != nil {
			return fmt.Errorf("committing a Target: %w", err)
		}
		if err := s.expect(ctx, step.stage, step.what, step.is); err != nil {
			return err
		}
	}
	return nil
}

// analysisRuns verify what a Stage was promoted to.
func (s *scene) analysisRuns(ctx context.Context) error {
	r := &rolloutsapi.AnalysisRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.project, Name: "verify-f1"},
		Spec:       rolloutsapi.AnalysisRunSpec{Stage: "prod"},
	}
	if err := s.client.Create(ctx, r); err != nil {
		return fmt.Errorf("creating an AnalysisRun: %w", err)
	}
	r.Status.Phase = "Successful"
	if err := s.client.Status().Update(ctx, r); err != nil {
		return fmt.Errorf("ending an AnalysisRun: %w", err)
	}
	return s.expect(ctx, "prod", "it is verified", func(st kargoapi.StageStatus) bool { return st.Verification == "Successful" })
}

// others are the Stages that are none of this controller's business.
func (s *scene) others(ctx context.Context) error {
	for _, name := range []string{"gate", "other"} {
		var stage kargoapi.Stage
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.project, Name: name}, &stage); err != nil {
			return err
		}
		if stage.Status.ObservedGeneration != 0 {
			return fmt.Errorf("stage %s is not this controller's, and it was reconciled: %+v", name, stage.Status)
		}
	}
	return nil
}

// print prints the Stages as kubectl does.
func (s *scene) print(ctx context.Context) error {
	var list kargoapi.StageList
	if err := s.client.List(ctx, &list, client.InNamespace(s.project)); err != nil {
		return err
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\nNAME\tOPEN\tLAST\tFREIGHT\tTARGETS\tVERIFICATION")
	for _, stage := range list.Items {
		st := stage.Status
		fmt.Fprintf(w, "%s\t%d\t%s\t%v\t%v\t%s\n", stage.Name, st.OpenRequests, st.LastRequest, st.AvailableFreight, st.Targets, st.Verification)
	}
	return w.Flush()
}
