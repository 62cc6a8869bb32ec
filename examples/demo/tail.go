package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// tail reads into the ledger what one controller has committed.
type tail struct {
	variant  int
	db       *sql.DB
	ledger   *ledger
	updates  int64 // the last row read of each table
	attempts int64
}

func openTail(variant int, file string, l *ledger) (*tail, error) {
	db, err := openDatabase(file, 1, readOnly)
	if err != nil {
		return nil, err
	}
	return &tail{variant: variant, db: db, ledger: l}, nil
}

const tailEvery = 100 * time.Millisecond

// follow reads what is new, again and again, until ctx ends.
func (t *tail) follow(ctx context.Context) error {
	ticker := time.NewTicker(tailEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := t.read(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// read reads what is new.
func (t *tail) read(ctx context.Context) error {
	if err := t.readUpdates(ctx); err != nil {
		return fmt.Errorf("reading what the controller on %s has written: %w", names[t.variant], err)
	}
	if err := t.readReconciled(ctx); err != nil {
		return fmt.Errorf("reading what the controller on %s has reconciled: %w", names[t.variant], err)
	}
	return nil
}

func (t *tail) readUpdates(ctx context.Context) error {
	rows, err := t.db.QueryContext(ctx,
		`SELECT id, project, stage, before, seen, open, events, at FROM updates WHERE id > ? ORDER BY id`, t.updates)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			stage stageKey
			u     update
			at    int64
		)
		err := rows.Scan(&t.updates, &stage.Project, &stage.Name, &u.before, &u.seen, &u.open, &u.events, &at)
		if err != nil {
			return err
		}
		t.ledger.updated(t.variant, stage, u, time.Unix(0, at))
	}
	return rows.Err()
}

func (t *tail) readReconciled(ctx context.Context) error {
	rows, err := t.db.QueryContext(ctx, `SELECT id, change, at FROM reconciled WHERE id > ? ORDER BY id`, t.attempts)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var number, at int64
		if err := rows.Scan(&t.attempts, &number, &at); err != nil {
			return err
		}
		t.ledger.reconciled(t.variant, number, time.Unix(0, at))
	}
	return rows.Err()
}
