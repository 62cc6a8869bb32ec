// Package layout keeps the arrows between the packages: who may know whom.
package layout

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/levelstream/jsource/"

// may lists, for each package that users import, the packages of this module that it may import.
var may = map[string][]string{
	"queue":           {},
	"tracing":         {},
	"metrics":         {},
	"consumer":        {},
	"reconciler":      {"queue", "tracing", "metrics"},
	"reconciler/list": {"reconciler"},
	"reconciler/nats": {"reconciler"},
	"reconciler/kube": {"reconciler", "queue"},
	"jsource":         {"consumer", "queue", "tracing", "metrics", "reconciler", "reconciler/nats"},
	"cmd/jsource":     {"jsource"},

	"jsource/jsourcetest": {"jsource", "internal/natstest"},
	"bench":               {"internal/bench"},
}

// mayNot lists what a package must not import from elsewhere.
var mayNot = map[string][]string{
	"queue":      {"github.com/nats-io/"},
	"tracing":    {"github.com/nats-io/"},
	"reconciler": {"github.com/nats-io/"},
}

// kubernetes are the packages that may import controller-runtime: the one for users, and what tests it.
var kubernetes = []string{"reconciler/kube", "internal/kubetest"}

func TestArrows(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", module+"...").CombinedOutput()
	if err != nil {
		t.Fatalf("listing the packages: %v\n%s", err, out)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		path, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		name := strings.TrimPrefix(path, module)
		if strings.Contains(imports, "sigs.k8s.io/controller-runtime") && !slices.Contains(kubernetes, name) {
			t.Errorf("%s imports controller-runtime: only %v may, so that whoever has no Kubernetes does not compile it", name, kubernetes)
		}
		allowed, listed := may[name]
		if !listed {
			if !strings.HasPrefix(name, "internal/") {
				t.Errorf("package %s is not in the list of this test: say there what it may import", name)
			}
			continue
		}
		seen++
		for imp := range strings.FieldsSeq(imports) {
			if own, ours := strings.CutPrefix(imp, module); ours && !slices.Contains(allowed, own) {
				t.Errorf("%s imports %s: it may import only %v", name, own, allowed)
			}
			for _, not := range mayNot[name] {
				if strings.HasPrefix(imp, not) {
					t.Errorf("%s imports %s: it must not know it", name, imp)
				}
			}
		}
	}
	if seen != len(may) {
		t.Errorf("%d packages found, %d are listed", seen, len(may))
	}
}
