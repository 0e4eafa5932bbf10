package store

import (
	"context"
	"database/sql"
	"fmt"
)

// statement is what a push asks of the database. They are prepared once: that takes longer than to run them.
type statement uint8

const (
	findClient statement = iota
	touchClient
	addClient
	findConfigurations
	addConfiguration
	countConfiguration
	dropConfiguration
	countMore
	forgetMore
	findOldest
	dropOldest
)

func statements() map[statement]string {
	const oldest = "(SELECT id FROM client ORDER BY last, id LIMIT ?)"
	return map[statement]string{
		findClient:  "SELECT id FROM client WHERE identity = ?",
		touchClient: "UPDATE client SET last = ? WHERE id = ?",
		addClient: `INSERT INTO client (identity, principal, client_id, address, listener, protocol, software, software_version, last)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		findConfigurations: "SELECT id, digest, connection_id, shared OR run <> ? FROM configuration WHERE client = ? ORDER BY last, id",
		addConfiguration: `INSERT INTO configuration (client, digest, run, connection_id, connected, first, last, pushes, bytes, entries)
			VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?)`,
		countConfiguration: `UPDATE configuration SET shared = ?, run = ?, connection_id = ?, connected = ?, last = ?, pushes = pushes + 1,
			bytes = ?, entries = ? WHERE id = ?`,
		dropConfiguration: "DELETE FROM configuration WHERE id = ?",
		countMore:         "UPDATE client SET more = more + 1 WHERE id = ?",
		forgetMore:        "UPDATE client SET more = 0 WHERE id = ? AND more > 0",
		findOldest:        "SELECT id FROM configuration WHERE client IN " + oldest,
		dropOldest:        "DELETE FROM client WHERE id IN " + oldest,
	}
}

// prepareStatements is done before the one connection is used for anything else.
func (p *Policy) prepareStatements(ctx context.Context) error {
	p.statements = map[statement]*sql.Stmt{}
	for name, text := range statements() {
		s, err := p.write.PrepareContext(ctx, text) //nolint:sqlclosecheck // Close ends them with the database
		if err != nil {
			return fmt.Errorf("prepare %q: %w", text, err)
		}
		p.statements[name] = s
	}
	return nil
}

// in is a statement in a transaction.
func (p *Policy) in(ctx context.Context, tx *sql.Tx, s statement) *sql.Stmt {
	return tx.StmtContext(ctx, p.statements[s])
}
