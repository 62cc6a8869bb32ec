package jsource

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/levelstream/jsource/consumer"
	"github.com/levelstream/jsource/reconciler/nats"
)

// awkward draws names made of what escaping has to keep apart.
func awkward(t *rapid.T, label string) string {
	return rapid.StringOfN(rapid.SampledFrom([]rune(`ab1-_.=@/\>* 2D5F2Eü`)), 1, 8, -1).Draw(t, label)
}

// S12: no two pairs of controller and topic have the same default durable, and each is a name that the server
// takes.
func TestDefaultDurablesNeverMeet(t *testing.T) {
	type pair struct{ controller, prefix string }
	rapid.Check(t, func(t *rapid.T) {
		a := pair{awkward(t, "controller"), awkward(t, "prefix")}
		b := pair{awkward(t, "other controller"), awkward(t, "other prefix")}
		for _, p := range []pair{a, b} {
			if err := consumer.CheckName(durableName(p.controller, p.prefix)); err != nil {
				t.Fatalf("of %+v: %v", p, err)
			}
		}
		if x, y := durableName(a.controller, a.prefix), durableName(b.controller, b.prefix); x == y && a != b {
			t.Fatalf("%+v and %+v are both %s", a, b, x)
		}
	})
}

// S12: pairs that an escaping less strict would mix up.
func TestDefaultDurablesThatLookAlike(t *testing.T) {
	seen := map[string][2]string{}
	for _, p := range [][2]string{
		{"a", "b-c"},
		{"a-b", "c"},
		{"a", "b.c"},
		{"a", "b_c"},
		{"a_b", "c"},
		{"a.b", "c"},
		{"a=2Db", "c"},
		{"a", "b=2Dc"},
		{"a=", "c"},
		{"a", "=c"},
		{"a", "b c"},
		{"A", "b-c"},
		{"a-", "c"},
		{"a", "-c"},
	} {
		name := durableName(p[0], p[1])
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q are both %s", p, other, name)
		}
		seen[name] = p
	}
	replicas := map[string][3]string{}
	for _, r := range [][3]string{
		{"x", "a", "b-1"},
		{"x-a", "b", "1"},
		{"x", "a", "b"},
		{"x-a", "b", ""},
		{"x", "a@b", "1"},
		{"x", "a", "b@1"},
		{"x@a", "b", "1"},
	} {
		name := replicaName(durableName(r[0], r[1]), r[2])
		if other, taken := replicas[name]; taken {
			t.Errorf("replicas %q and %q are both %s", r, other, name)
		}
		replicas[name] = r
	}
	if got := durableName("fleet_stage", "kargo.targets"); got != "fleet_stage-kargo_targets" {
		t.Errorf("an ordinary name is escaped: %s", got)
	}
}

// PerReplica: no two replicas of whatever default durable share one.
func TestReplicasNeverMeet(t *testing.T) {
	type replica struct{ controller, prefix, id string }
	name := func(r replica) string { return replicaName(durableName(r.controller, r.prefix), r.id) }
	rapid.Check(t, func(t *rapid.T) {
		a := replica{awkward(t, "controller"), awkward(t, "prefix"), awkward(t, "id")}
		b := replica{awkward(t, "other controller"), awkward(t, "other prefix"), awkward(t, "other id")}
		if err := consumer.CheckName(name(a)); err != nil {
			t.Fatalf("of %+v: %v", a, err)
		}
		if name(a) == name(b) && a != b {
			t.Fatalf("%+v and %+v are both %s", a, b, name(a))
		}
		if whole := durableName(b.controller, b.prefix); name(a) == whole {
			t.Fatalf("replica %+v and the durable of %+v are both %s", a, b, whole)
		}
	})
}

// Subjects are told from others by their last token, and roots that are no topic are refused.
func TestRootOf(t *testing.T) {
	for subject, want := range map[string]string{
		"a.created": "a.>", "a.b.updated": "a.b.>", "a.created.deleted": "a.created.>",
		"created": "", ".created": "", "a.b": "", "a.*.created": "", "a.>": "", "$JS.created": "",
		"a b.created": "", "a..created": "", "": "",
	} {
		got, err := rootOf(subject)
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%q belongs to %q (%v), want %q", subject, got, err, want)
		}
	}
	topic := nats.NewTopic[string, int]("shop.orders")
	if root, _ := rootOf(topic.SubjectOf(nats.Updated)); root != topic.Subject() {
		t.Errorf("the root of a topic's event is %q", root)
	}
}
