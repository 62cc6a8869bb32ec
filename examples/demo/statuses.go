package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// statuses is where one controller writes the status of each Stage: a database of its own, as those of a
// real one are in Kubernetes. The demo reads its accounts from there too: what a killed process says it
// has done does not count, what it has committed does.
type statuses struct {
	db   *sql.DB
	due  chan write
	stop chan struct{}
	done sync.WaitGroup
}

// stageStatus is what a controller says of a Stage.
type stageStatus struct {
	Phase    phase // of the PromotionRequest that changed last
	Open     int   // PromotionRequests that have not ended
	Requests int   // PromotionRequests
	Seen     int64 // the last change that was taken into account
}

const statusesSchema = `
CREATE TABLE statuses (
	project  TEXT NOT NULL,
	stage    TEXT NOT NULL,
	phase    TEXT NOT NULL,
	open     INTEGER NOT NULL,
	requests INTEGER NOT NULL,
	seen     INTEGER NOT NULL,
	PRIMARY KEY (project, stage)
) WITHOUT ROWID;
CREATE TABLE updates ( -- one row for each attempt that had to change a status
	id      INTEGER PRIMARY KEY,
	project TEXT NOT NULL,
	stage   TEXT NOT NULL,
	before  INTEGER NOT NULL, -- the last change that had been taken into account
	seen    INTEGER NOT NULL, -- and the one that now is
	open    INTEGER NOT NULL, -- PromotionRequests that have not ended
	events  INTEGER NOT NULL, -- that the attempt was caused by; 0: the list alone
	at      INTEGER NOT NULL  -- Unix nanoseconds
);
CREATE TABLE reconciled ( -- one row for each event that led to an attempt
	id     INTEGER PRIMARY KEY,
	change INTEGER NOT NULL,
	at     INTEGER NOT NULL
)`

// createStatuses makes the database, with no status in it.
func createStatuses(ctx context.Context, file string) error {
	db, err := openDatabase(file, 1)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, statusesSchema); err != nil {
		return fmt.Errorf("making a database of statuses: %w", err)
	}
	return nil
}

// openStatuses opens the database for one controller.
func openStatuses(file string) (*statuses, error) {
	db, err := openDatabase(file, 1)
	if err != nil {
		return nil, err
	}
	s := &statuses{db: db, due: make(chan write), stop: make(chan struct{})}
	s.done.Go(s.work)
	return s, nil
}

func (s *statuses) Close() error {
	close(s.stop)
	s.done.Wait()
	return s.db.Close()
}

// write is one status to be written.
type write struct {
	stage  stageKey
	status stageStatus
	events []int64 // the changes whose events caused the attempt
	result chan<- written
}

type written struct {
	changed bool
	err     error
}

// Write writes the status of a Stage unless it is that already, and returns when it is committed.
func (s *statuses) Write(ctx context.Context, stage stageKey, status stageStatus) (changed bool, err error) {
	result := make(chan written, 1)
	select {
	case s.due <- write{stage: stage, status: status, events: eventsOf(ctx), result: result}:
	case <-s.stop:
		return false, errors.New("the database is closed")
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	r := <-result
	if r.err != nil {
		return false, fmt.Errorf("writing the status of Stage %s/%s: %w", stage.Project, stage.Name, r.err)
	}
	return r.changed, nil
}

// work commits in one transaction whatever became due during the one before: SQLite has one writer.
func (s *statuses) work() {
	for {
		var batch []write
		select {
		case <-s.stop:
			return
		case w := <-s.due:
			batch = append(batch, w)
		}
	more:
		for len(batch) < workers {
			select {
			case w := <-s.due:
				batch = append(batch, w)
			default:
				break more
			}
		}
		changed := make([]bool, len(batch))
		err := inTransaction(context.Background(), s.db, func(tx *sql.Tx) error {
			for i := range batch {
				var err error
				if changed[i], err = batch[i].in(tx); err != nil {
					return err
				}
			}
			return nil
		})
		for i, w := range batch {
			w.result <- written{changed: changed[i] && err == nil, err: err}
		}
	}
}

// in writes the status, and what the demo wants to know, as part of tx.
func (w *write) in(tx *sql.Tx) (changed bool, err error) {
	now := time.Now().UnixNano()
	var is stageStatus
	err = tx.QueryRow(`SELECT phase, open, requests, seen FROM statuses WHERE project = ? AND stage = ?`,
		w.stage.Project, w.stage.Name).Scan(&is.Phase, &is.Open, &is.Requests, &is.Seen)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	if changed = is != w.status; changed {
		_, err := tx.Exec(`
			INSERT INTO statuses (project, stage, phase, open, requests, seen) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (project, stage) DO UPDATE SET
				phase = excluded.phase, open = excluded.open, requests = excluded.requests, seen = excluded.seen`,
			w.stage.Project, w.stage.Name, w.status.Phase, w.status.Open, w.status.Requests, w.status.Seen)
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(`
			INSERT INTO updates (project, stage, before, seen, open, events, at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			w.stage.Project, w.stage.Name, is.Seen, w.status.Seen, w.status.Open, len(w.events), now)
		if err != nil {
			return false, err
		}
	}
	for _, number := range w.events {
		if _, err := tx.Exec(`INSERT INTO reconciled (change, at) VALUES (?, ?)`, number, now); err != nil {
			return false, err
		}
	}
	return changed, nil
}
