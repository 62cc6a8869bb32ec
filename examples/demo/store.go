package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/google/uuid"
)

// store is the database of PromotionRequests. The API server writes it; the controllers read it.
type store struct {
	db    *sql.DB
	stage *sql.Stmt
}

const storeSchema = `
CREATE TABLE stages (
	project TEXT NOT NULL,
	name    TEXT NOT NULL,
	change  INTEGER NOT NULL DEFAULT 0, -- the last one that concerns the Stage
	PRIMARY KEY (project, name)
) WITHOUT ROWID;
CREATE TABLE requests (
	id      TEXT NOT NULL PRIMARY KEY,
	project TEXT NOT NULL,
	stage   TEXT NOT NULL,
	phase   TEXT NOT NULL,
	step    INTEGER NOT NULL,
	change  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX requests_by_stage ON requests (project, stage)`

// createStore makes the database with the Stages and no PromotionRequests.
func createStore(ctx context.Context, file string, stages []stageKey) (*store, error) {
	db, err := openDatabase(file, 1)
	if err != nil {
		return nil, err
	}
	if _, err = db.ExecContext(ctx, storeSchema); err == nil {
		err = inTransaction(ctx, db, func(tx *sql.Tx) error {
			const insert = `INSERT INTO stages (project, name) VALUES (?, ?)`
			for _, s := range stages {
				if _, err := tx.ExecContext(ctx, insert, s.Project, s.Name); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("making the database of requests: %w", err)
	}
	return &store{db: db}, nil
}

// openStore opens the database for reading.
func openStore(ctx context.Context, file string) (*store, error) {
	db, err := openDatabase(file, 2, readOnly)
	if err != nil {
		return nil, err
	}
	// One statement, so that all it returns is of one moment.
	stage, err := db.PrepareContext(ctx, `
		SELECT s.change, r.id, r.phase, r.step, r.change
		FROM stages s LEFT JOIN requests r ON r.project = s.project AND r.stage = s.name
		WHERE s.project = ? AND s.name = ?`)
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	return &store{db: db, stage: stage}, nil
}

func (s *store) Close() error { return s.db.Close() }

// Stages lists every Stage.
func (s *store) Stages(ctx context.Context) ([]stageKey, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT project, name FROM stages`)
	if err != nil {
		return nil, fmt.Errorf("listing Stages: %w", err)
	}
	defer rows.Close()
	var stages []stageKey
	for rows.Next() {
		var k stageKey
		if err := rows.Scan(&k.Project, &k.Name); err != nil {
			return nil, fmt.Errorf("listing Stages: %w", err)
		}
		stages = append(stages, k)
	}
	return stages, rows.Err()
}

// stageState is what the database holds of one Stage.
type stageState struct {
	Change   int64 // the last one that concerns the Stage
	Requests []promotionRequestRow
}

// Stage reads the PromotionRequests of one Stage.
func (s *store) Stage(ctx context.Context, key stageKey) (stageState, error) {
	var state stageState
	fail := func(err error) (stageState, error) {
		return stageState{}, fmt.Errorf("reading the requests of Stage %s/%s: %w", key.Project, key.Name, err)
	}
	rows, err := s.stage.QueryContext(ctx, key.Project, key.Name)
	if err != nil {
		return fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			id, phaseName sql.NullString
			step, number  sql.NullInt64
		)
		if err := rows.Scan(&state.Change, &id, &phaseName, &step, &number); err != nil {
			return fail(err)
		}
		if !id.Valid {
			continue // a Stage without requests
		}
		row := promotionRequestRow{
			Project: key.Project, Stage: key.Name, Phase: phase(phaseName.String),
			Step: int(step.Int64), Change: number.Int64,
		}
		if row.ID, err = uuid.Parse(id.String); err != nil {
			return fail(err)
		}
		state.Requests = append(state.Requests, row)
	}
	if err := rows.Err(); err != nil {
		return fail(err)
	}
	return state, nil
}

// Commit commits changes, all or none of them.
func (s *store) Commit(ctx context.Context, changes []change) error {
	err := inTransaction(ctx, s.db, func(tx *sql.Tx) error {
		for i := range changes {
			if err := apply(ctx, tx, &changes[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("committing %d changes: %w", len(changes), err)
	}
	return nil
}

func apply(ctx context.Context, tx *sql.Tx, c *change) error {
	var err error
	if r := c.New; r == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM requests WHERE id = ?`, c.Old.ID.String())
	} else {
		_, err = tx.ExecContext(ctx, `
			INSERT INTO requests (id, project, stage, phase, step, change) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET phase = excluded.phase, step = excluded.step, change = excluded.change`,
			r.ID.String(), r.Project, r.Stage, r.Phase, r.Step, r.Change)
	}
	if err == nil && c.matters() {
		row := c.row()
		_, err = tx.ExecContext(ctx, `UPDATE stages SET change = ? WHERE project = ? AND name = ?`,
			c.Number, row.Project, row.Stage)
	}
	return err
}
