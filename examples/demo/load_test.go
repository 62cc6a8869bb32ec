package main

import (
	"reflect"
	"testing"
)

// The made-up load is one that a database and a controller can live with, and the same for the same seed.
func TestLoad(t *testing.T) {
	t.Parallel()
	stages := stagesOf(50)
	a, b, other := newLoad(1, stages), newLoad(1, stages), newLoad(2, stages)
	rows := map[stageKey]promotionRequestRow{}
	kinds, filtered, differs := map[string]int{}, 0, false
	for n := int64(1); n <= 5000; n++ {
		c, err := a.next()
		if err != nil {
			t.Fatal(err)
		}
		same, _ := b.next()
		if !reflect.DeepEqual(c, same) {
			t.Fatalf("change %d differs though the seed is the same", n)
		}
		if o, _ := other.next(); !reflect.DeepEqual(c, o) {
			differs = true
		}
		if c.Number != n || c.row().Change != n {
			t.Fatalf("change %d has number %d, and its row %d", n, c.Number, c.row().Change)
		}
		if !c.matters() {
			filtered++
		}
		is, exists := rows[c.row().stage()]
		switch {
		case c.Old == nil:
			kinds["created"]++
			if exists {
				t.Fatalf("change %d creates a second request for a Stage", n)
			}
			rows[c.row().stage()] = *c.New
		case c.New == nil:
			kinds["deleted"]++
			if !exists || !is.Phase.terminal() || is.ID != c.Old.ID {
				t.Fatalf("change %d deletes %+v", n, is)
			}
			delete(rows, c.row().stage())
		default:
			kinds["updated"]++
			if !exists || is != *c.Old || is.Phase.terminal() {
				t.Fatalf("change %d updates %+v from %+v", n, is, *c.Old)
			}
			rows[c.row().stage()] = *c.New
		}
	}
	if !differs {
		t.Error("another seed makes the same load")
	}
	if len(kinds) != 3 || filtered < 500 {
		t.Errorf("%v, %d filtered", kinds, filtered)
	}
}
