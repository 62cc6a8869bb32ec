package history

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule names what was violated.
type Rule string

// Violation is one breach of a rule.
type Violation struct {
	Rule    Rule
	Replica string // empty where it is nobody's in particular
	Message ID     // zero where it is not about one message
	Text    string
}

func (v Violation) String() string {
	s := string(v.Rule) + ": "
	if v.Message != (ID{}) {
		s += "message " + v.Message.String() + ": "
	}
	if v.Replica != "" {
		s += "replica " + v.Replica + " "
	}
	return s + v.Text
}

// Report is what a history shows.
type Report struct {
	Violations []Violation
	Figures    Figures
	index      *index
}

// Check judges a history.
func Check(h *History) *Report {
	x := newIndex(h)
	r := &Report{index: x}
	ambiguous := x.ambiguous()
	for _, m := range x.order {
		if m.publish == nil {
			r.add(Harness, m, "", "its payload says call %d, which is no publish on record", m.call)
			continue
		}
		for _, v := range m.order {
			r.acked(v)
			r.buried(v)
			r.judged(v)
			r.beaten(v)
			r.kept(v)
			r.leased(v)
			r.outlived(v)
			if !ambiguous[m.call] {
				r.absorbed(v)
			}
		}
	}
	r.lost()
	r.waited()
	r.overlaps()
	r.idle()
	r.count()
	slices.SortStableFunc(r.Violations, func(a, b Violation) int { return cmp.Compare(a.Rule, b.Rule) })
	return r
}

// Harness is the rule that the record itself must make sense.
const Harness Rule = "harness"

func (r *Report) add(rule Rule, m *message, replica, format string, args ...any) {
	v := Violation{Rule: rule, Replica: replica, Text: fmt.Sprintf(format, args...)}
	if m != nil {
		v.Message = m.id
	}
	r.Violations = append(r.Violations, v)
}
