package consumer

import "testing"

func TestS12_Matches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a", "a.b", false},
		{"a.b", "a", false},
		{">", "a", true},
		{">", ">", true},
		{">", "*.a", true},
		{"a.>", "a", false},
		{"a.>", "a.b", true},
		{"a.>", "a.>", true},
		{"a.>", "a.b.c.>", true},
		{"a.>", ">", false},
		{"a.>", "a.*", true},
		{"a.*", "a.b", true},
		{"a.*", "a.*", true},
		{"a.*", "a.>", false},
		{"a.*", "a.b.c", false},
		{"a.b", "a.*", false},
		{"*", "a", true},
		{"*", "a.b", false},
		{"*.b", "a.b", true},
		{"*.b", "a.c", false},
		{"*.>", "a", false},
		{"*.>", "a.b", true},
		{"*.*", "*.*", true},
		{"*", ">", false},
	} {
		if got := matches(test.pattern, test.subject); got != test.want {
			t.Errorf("matches(%q, %q) = %t", test.pattern, test.subject, got)
		}
	}
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a", "a.b", false},
		{"a.>", "a", false},
		{"a.>", "a.b", true},
		{"a.>", "b.>", false},
		{">", "a", true},
		{"a.*", "*.b", true},
		{"a.*", "b.*", false},
		{"a.*", "a.b.c", false},
		{"*.b.>", "a.*.c", true},
		{"*.b.>", "a.c.>", false},
	} {
		if overlap(test.a, test.b) != test.want || overlap(test.b, test.a) != test.want {
			t.Errorf("overlap(%q, %q) is not %t", test.a, test.b, test.want)
		}
	}
}
