package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/google/uuid"
)

// load makes up the life of PromotionRequests: one is created for a Stage, runs, makes progress and ends
// well or badly; when the next one is created for the Stage, the one that ended is deleted. Stages take
// turns, so that a Stage is busy for a moment and then quiet for long. The same seed makes the same life.
type load struct {
	rand   *rand.Rand
	ids    io.Reader
	number int64
	width  int // how many requests run at once

	turns []stageKey
	turn  int
	open  []promotionRequestRow
	busy  map[stageKey]bool
	ended map[stageKey]promotionRequestRow
}

const (
	mostOpen      = 100 // requests that run at once, unless there are too few Stages for that
	progressShare = 0.6 // of the changes of a running request that are mere progress
	failureShare  = 0.1 // of the requests that end badly

	stagesPerProject = 10
)

// stagesOf makes up n Stages.
func stagesOf(n int) []stageKey {
	stages := make([]stageKey, n)
	for i := range stages {
		stages[i] = stageKey{
			Project: fmt.Sprintf("project-%03d", i/stagesPerProject),
			Name:    fmt.Sprintf("stage-%d", i%stagesPerProject),
		}
	}
	return stages
}

func newLoad(seed uint64, stages []stageKey) *load {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	source := rand.NewChaCha8(key)
	l := &load{
		rand: rand.New(source), ids: source,
		width: max(1, min(mostOpen, len(stages)/4)),
		turns: append([]stageKey(nil), stages...),
		busy:  map[stageKey]bool{}, ended: map[stageKey]promotionRequestRow{},
	}
	l.rand.Shuffle(len(l.turns), func(i, j int) { l.turns[i], l.turns[j] = l.turns[j], l.turns[i] })
	return l
}

// next is the next change to commit.
func (l *load) next() (change, error) {
	l.number++
	if len(l.open) < l.width {
		return l.begin()
	}
	return l.proceed(), nil
}

// begin creates a request for the Stage whose turn it is, unless there is an old one to be deleted first.
func (l *load) begin() (change, error) {
	for l.busy[l.turns[l.turn]] {
		l.turn = (l.turn + 1) % len(l.turns)
	}
	stage := l.turns[l.turn]
	if old, ok := l.ended[stage]; ok {
		delete(l.ended, stage)
		old.Change = l.number
		return change{Number: l.number, Old: &old}, nil
	}
	l.turn = (l.turn + 1) % len(l.turns)
	id, err := uuid.NewRandomFromReader(l.ids)
	if err != nil {
		return change{}, fmt.Errorf("making up an id: %w", err)
	}
	row := promotionRequestRow{ID: id, Project: stage.Project, Stage: stage.Name, Phase: pending, Change: l.number}
	l.busy[stage] = true
	l.open = append(l.open, row)
	return change{Number: l.number, New: &row}, nil
}

// proceed changes one of the requests that run.
func (l *load) proceed() change {
	i := l.rand.IntN(len(l.open))
	old := l.open[i]
	row := old
	row.Change = l.number
	switch {
	case row.Phase == pending:
		row.Phase = running
	case l.rand.Float64() < progressShare:
		row.Step++
	case l.rand.Float64() < failureShare:
		row.Phase = failed
	default:
		row.Phase = succeeded
	}
	l.open[i] = row
	if row.Phase.terminal() {
		l.open[i] = l.open[len(l.open)-1]
		l.open = l.open[:len(l.open)-1]
		delete(l.busy, row.stage())
		l.ended[row.stage()] = row
	}
	return change{Number: l.number, Old: &old, New: &row}
}
