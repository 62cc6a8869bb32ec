package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	_ "modernc.org/sqlite" // SQLite, in Go: nothing to install
)

// openDatabase opens an SQLite file that several processes use at once: in WAL mode one writes while the
// others read. A process that is killed loses nothing it has committed; only a machine that loses its
// power would, and then nobody reads the files again.
func openDatabase(file string, conns int, pragmas ...string) (*sql.DB, error) {
	query := url.Values{"_txlock": {"immediate"}}
	pragmas = append([]string{"busy_timeout(20000)", "journal_mode(WAL)", "synchronous(OFF)"}, pragmas...)
	for _, p := range pragmas {
		query.Add("_pragma", p)
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+query.Encode())
	if err != nil {
		return nil, fmt.Errorf("opening the database %s: %w", file, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

const readOnly = "query_only(1)"

// inTransaction runs fn in a transaction and commits it if fn succeeds.
func inTransaction(ctx context.Context, db *sql.DB, fn func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		_ = tx.Rollback() // what went wrong is known
		return err
	}
	return tx.Commit()
}
