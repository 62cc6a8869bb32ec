package main

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/levelstream/jsource/examples/fleetstage/kargoapi"
	"github.com/levelstream/jsource/internal/kubetest"
	"github.com/levelstream/jsource/internal/natstest"
	"github.com/levelstream/jsource/jsource"
	"github.com/levelstream/jsource/reconciler"
)

func TestMain(m *testing.M) { kubetest.Main(m, nil) }

// Each variant, on a real API server: the program itself fails if a Stage's status does not become what it should,
// and here somebody else looks at the Stages as well.
func TestVariants(t *testing.T) {
	cluster := kubetest.Start(t)
	for _, tc := range []struct {
		args []string
		want []string // what it says on the way
		prod kargoapi.StageStatus
	}{
		{[]string{"-variant", kinds, "-analysisruns"}, []string{"it is verified"}, kargoapi.StageStatus{Verification: "Successful"}},
		{[]string{"-variant", coreNATS}, nil, kargoapi.StageStatus{}},
		{[]string{"-variant", jetStream}, nil, kargoapi.StageStatus{}},
		{[]string{"-variant", withTargets}, []string{"the Target has moved away"}, kargoapi.StageStatus{Targets: []string{`cluster-1 {"replicas":2}`}}},
	} {
		t.Run(strings.Join(tc.args[1:], " "), func(t *testing.T) {
			kubeconfig := cluster.Kubeconfig(t)
			stages := stagesOf(t, kubeconfig)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			// It is kept until the Stages were looked at.
			look := &lookWhenDone{when: "kubectl", look: func(text string) {
				defer stop()
				project := text[strings.Index(text, " -n ")+len(" -n "):]
				project, _, _ = strings.Cut(project, " ")
				got, err := stages(project)
				if err != nil {
					t.Error(err)
					return
				}
				prod := got["prod"]
				if !slices.Equal(prod.AvailableFreight, []string{"f1", "f2"}) || prod.OpenRequests != 0 ||
					prod.LastRequest != "f1 Succeeded" || !slices.Equal(prod.Targets, tc.prod.Targets) ||
					prod.Verification != tc.prod.Verification {
					t.Errorf("the status of prod is %+v", prod)
				}
				if test := got["test"]; test.HandledRefresh != "now" || len(test.Targets) != 0 {
					t.Errorf("the status of test is %+v", test)
				}
			}}
			code := run(ctx, append(tc.args, "-kubeconfig", kubeconfig, "-keep"), look)
			if code != 0 || !look.done {
				t.Errorf("exit status %d, kept %t:\n%s", code, look.done, &look.text)
			}
			for _, want := range append(tc.want, "NAME", "Succeeded") {
				if !strings.Contains(look.text.String(), want) {
					t.Errorf("it does not say %q:\n%s", want, &look.text)
				}
			}
		})
	}
}

// lookWhenDone calls look once when what is written says when.
type lookWhenDone struct {
	text bytes.Buffer
	when string
	look func(text string)
	done bool
}

func (l *lookWhenDone) Write(p []byte) (int, error) {
	n, err := l.text.Write(p)
	if !l.done && bytes.Contains(p, []byte(l.when)) {
		l.done = true
		l.look(string(p))
	}
	return n, err
}

// stagesOf returns a function that reads the status of each Stage of a project.
func stagesOf(t *testing.T, kubeconfig string) func(project string) (map[string]kargoapi.StageStatus, error) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	return func(project string) (map[string]kargoapi.StageStatus, error) {
		// Now: before the program has run, the server does not know the kinds.
		c, err := client.New(cfg, client.Options{Scheme: scheme})
		if err != nil {
			return nil, err
		}
		var list kargoapi.StageList
		if err := c.List(context.Background(), &list, client.InNamespace(project)); err != nil {
			return nil, err
		}
		got := map[string]kargoapi.StageStatus{}
		for _, stage := range list.Items {
			got[stage.Name] = stage.Status
		}
		return got, nil
	}
}

// The program starts servers of its own if it is given none.
func TestOwnServers(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", kubetest.Assets(t))
	var out bytes.Buffer
	if code := run(t.Context(), nil, &out); code != 0 {
		t.Errorf("exit status %d:\n%s", code, &out)
	}
}

func TestFlags(t *testing.T) {
	if code := run(t.Context(), []string{"-variant", "carrier pigeon"}, &bytes.Buffer{}); code != 2 {
		t.Errorf("exit status %d", code)
	}
}

// What makes the promotion requests' events durable is one word.
func TestOneWord(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "events.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			var b bytes.Buffer
			if err := format.Node(&b, fset, f.Body); err != nil {
				t.Fatal(err)
			}
			bodies[f.Name.Name] = b.String()
		}
	}
	before, after := bodies["overCoreNATS"], bodies["overJetStream"]
	if before == "" || after == before || strings.Replace(before, "nats.Mapped", "jsource.Mapped", 1) != after {
		t.Errorf("more than one word differs, or none:\n%s\n%s", before, after)
	}
}

// failing is a client whose first lists fail.
type failing struct {
	client.Reader
	left atomic.Int32
}

func (f *failing) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if f.left.Add(-1) >= 0 {
		return errors.New("the API server is away")
	}
	return f.Reader.List(ctx, list, opts...)
}

// An event of a Target whose Stages cannot be listed is not lost, as it is with a mapper that cannot fail; one that
// touches neither labels nor params wakes nobody.
func TestTargets_AFailingListLosesNothing(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{project: "fleet"}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, stage := range s.stages() {
		builder = builder.WithObjects(stage)
	}
	c := &failing{Reader: builder.Build()}
	c.left.Store(3)
	srv := natstest.Start(t)
	conn := srv.Conn()
	db := &database{prefix: "fleet"}
	if db.publisher, err = jsource.NewPublisher(conn); err != nil {
		t.Fatal(err)
	}
	key := targetKey{Project: "fleet", Name: "cluster-1"}
	commit := func(row targetRow) {
		t.Helper()
		if err := db.CommitTarget(key, row); err != nil {
			t.Fatal(err)
		}
	}
	commit(targetRow{Labels: map[string]string{"env": "test"}})
	got := make(chan string, 100)
	ctrl, err := reconciler.New[reconcile.Request]("targets").Watch(targetsToStages(conn, targetTopic("fleet"), c)).
		Func(func(_ context.Context, req reconcile.Request) (reconciler.Result, error) {
			got <- req.Name
			return reconciler.Result{}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ctrl.Start(ctx) }()
	settled := func() []string {
		t.Helper()
		natstest.WaitSettled(t, srv.JetStream(), "fleet_targets", "targets-fleet_targets")
		var names []string
		for len(got) > 0 {
			names = append(names, <-got)
		}
		slices.Sort(names)
		return names
	}
	natstest.Until(t, "the event is reconciled although the list failed", natstest.Patience, func() bool { return len(got) > 0 })
	if names := settled(); !slices.Equal(names, []string{"test"}) {
		t.Errorf("reconciled %v", names)
	}
	commit(targetRow{Labels: map[string]string{"env": "test"}, Health: "degraded"})
	if names := settled(); len(names) != 0 {
		t.Errorf("a change of the status woke %v", names)
	}
	commit(targetRow{Labels: map[string]string{"env": "prod"}, Health: "degraded"})
	if names := settled(); !slices.Equal(names, []string{"prod", "test"}) {
		t.Errorf("a move woke %v", names)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
