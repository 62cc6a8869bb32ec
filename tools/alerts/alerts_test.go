// Package alerts checks what docs holds for Prometheus and Grafana: rules and queries are parsed as Prometheus does, and
// every metric in them is one that this module shows. It is a module of its own, so that nobody else compiles Prometheus.
package alerts

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const docs = "../../docs/"

// queries are every expression in docs, by where it stands.
func queries(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	data, err := os.ReadFile(docs + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(data, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		t.FailNow()
	}
	operating, err := os.ReadFile(docs + "operating.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			all["alert "+r.Alert] = r.Expr
			if !strings.Contains(string(operating), "## "+r.Alert+"\n") {
				t.Errorf("operating.md says nothing of alert %s", r.Alert)
			}
		}
	}
	if data, err = os.ReadFile(docs + "grafana.json"); err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all["panel "+p.Title+" "+target.Expr] = strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d queries found", len(all))
	}
	return all
}

// documented are the metrics that package metrics lists, as Prometheus names them, without suffixes.
func documented(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../../metrics/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^//\t([a-z][a-z._]+) `).FindAllStringSubmatch(string(data), -1) {
		names = append(names, strings.ReplaceAll(m[1], ".", "_"))
	}
	if len(names) < 15 {
		t.Fatalf("only %d metrics are listed", len(names))
	}
	return names
}

func TestQueries(t *testing.T) {
	known := documented(t)
	p := parser.NewParser(parser.Options{})
	for where, query := range queries(t) {
		expr, err := p.ParseExpr(query)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if s, ok := node.(*parser.VectorSelector); ok {
				name := s.Name
				for _, suffix := range []string{"_bucket", "_total", "_seconds"} {
					name = strings.TrimSuffix(name, suffix)
				}
				if !slices.Contains(known, name) {
					t.Errorf("%s: there is no metric %s", where, s.Name)
				}
			}
			return nil
		})
	}
}
