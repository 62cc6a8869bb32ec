package main

import "github.com/google/uuid"

// promotionRequestRow is a PromotionRequest as the database holds it.
type promotionRequestRow struct {
	ID      uuid.UUID `json:"id"`
	Project string    `json:"project"`
	Stage   string    `json:"stage"`
	Phase   phase     `json:"phase"`
	Step    int       `json:"step"` // moves on within a phase, which means nothing to the Stage
	// Change is the number of the change that made the row what it is; in an event that the row was
	// deleted, of the deletion.
	Change int64 `json:"change"`
}

func (r *promotionRequestRow) stage() stageKey { return stageKey{Project: r.Project, Name: r.Stage} }

type phase string

const (
	pending   phase = "Pending"
	running   phase = "Running"
	succeeded phase = "Succeeded"
	failed    phase = "Failed"
)

func (p phase) terminal() bool { return p == succeeded || p == failed }

// change is one change of a row, as it was committed: Old is nil when it created the row, New when it
// deleted it.
type change struct {
	Number   int64
	Old, New *promotionRequestRow
}

func (c *change) row() *promotionRequestRow {
	if c.New != nil {
		return c.New
	}
	return c.Old
}

// matters reports whether the change concerns the row's Stage: it is not one that OnUpdate filters.
func (c *change) matters() bool { return c.Old == nil || c.New == nil || phaseChanged(*c.Old, *c.New) }
