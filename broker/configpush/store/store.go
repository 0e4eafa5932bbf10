// Package store is the policy store: it keeps the latest configuration of each client in an SQLite database in log.dirs,
// where people can query it while the broker runs (sqlite3 -readonly .../client-configs/configs.db).
//
// A push carries no id of its sender. Clients are told apart by what the broker knows of their connections
// ([configpush.Identity]): all pushes under one identity are one row of the table client. A push of the same configuration
// is counted. One of another configuration takes the place of the former, unless a connection is open that may belong to
// whoever pushed that: then both are kept, and the client is ambiguous. Two configurations never become one.
//
// What was answered survives a kill of the process, though perhaps not one of the machine. There are never more than
// client.config.store.max.instances clients: the one that has not pushed for longest goes. Without log.dirs everything is in memory.
//
// All texts in the database are [configpush.Printable]: control characters and bytes that are no UTF-8 are escaped, so that
// a terminal is safe. Secrets never get here; a password of the client that somehow does is redacted again.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"github.com/brokerlab/brokerlab/broker/configpush"
)

const (
	// Dir is the folder of log.dirs with the database.
	Dir = "client-configs"
	// File is the database.
	File = "configs.db"
	// MaxInstances is the property that bounds the clients that are kept.
	MaxInstances = "client.config.store.max.instances"
	// DefaultMaxInstances is what it is unless it is set.
	DefaultMaxInstances = 10_000
	// mostConfigurations bounds the configurations of one client.
	mostConfigurations = 8
)

// Policy keeps what clients push. Its methods are safe for concurrent use.
type Policy struct {
	log  *slog.Logger
	run  int64 // tells this run's ids of connections from those of others
	most atomic.Int64
	open func(of *configpush.Identity) iter.Seq[configpush.Context] // nil: nobody tells

	where      string                  // the file, or words for memory
	write      *sql.DB                 // one connection
	read       *sql.DB                 // others; the same in memory
	statements map[statement]*sql.Stmt // of write; not changed after Configure

	mu      sync.Mutex
	clients int64              // rows of client
	tick    int64              // when the last push was kept, in milliseconds; no two are the same
	pushers map[int64]*pushers // of this run, by the id of the configuration
}

// pushers are the connections that pushed a configuration.
type pushers struct {
	by map[string]struct{}
	at int64 // the tick of the last
}

var (
	_ configpush.Batcher  = (*Policy)(nil)
	_ configpush.Lister   = (*Policy)(nil)
	_ configpush.Observer = (*Policy)(nil)
)

// New returns a policy that is to be configured.
func New(log *slog.Logger) *Policy {
	return &Policy{log: log, run: time.Now().UnixNano(), pushers: map[int64]*pushers{}}
}

// Configure opens the database in the first of log.dirs, or makes it.
func (p *Policy) Configure(properties map[string]string) error {
	if err := p.Reconfigure(properties); err != nil {
		return err
	}
	dir, _, _ := strings.Cut(properties["log.dirs"], ",")
	if dir = strings.TrimSpace(dir); dir == "" {
		return p.openMemory()
	}
	return p.openFile(filepath.Join(dir, Dir))
}

// Reconfigure takes a new bound; what is over it goes with the next push.
func (p *Policy) Reconfigure(properties map[string]string) error {
	most := int64(DefaultMaxInstances)
	if text, given := properties[MaxInstances]; given {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
		if err != nil || n < 1 {
			return fmt.Errorf("%s: %q is not a number from 1 on", MaxInstances, text)
		}
		most = n
	}
	p.most.Store(most)
	return nil
}

// Observe lets the policy know which connections are open.
func (p *Policy) Observe(open func(of *configpush.Identity) iter.Seq[configpush.Context]) {
	p.open = open
}

// Close ends the database; the log that it writes ahead is merged into the file.
func (p *Policy) Close() error {
	var errs []error
	if p.read != nil && p.read != p.write {
		errs = append(errs, p.read.Close())
	}
	if p.write != nil {
		errs = append(errs, p.write.Close()) // the last connection to close merges the log
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close client configurations: %w", err)
	}
	return nil
}

func (p *Policy) openMemory() error {
	var err error
	if p.write, err = sql.Open("sqlite", "file::memory:?"+pragmas(false)); err != nil {
		return fmt.Errorf("open client configurations: %w", err)
	}
	p.write.SetMaxOpenConns(1) // another connection would be another memory
	p.write.SetMaxIdleConns(1)
	p.write.SetConnMaxLifetime(0)
	p.read = p.write
	p.where = "in memory"
	return p.prepare()
}

func (p *Policy) openFile(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make folder of client configurations: %w", err)
	}
	path := filepath.Join(dir, File)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite would let everybody read it
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fmt.Errorf("open client configurations: %w", err)
	}
	location := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}).String()
	if p.write, err = sql.Open("sqlite", location+"?_txlock=immediate&"+pragmas(true)); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	p.write.SetMaxOpenConns(1)
	p.write.SetMaxIdleConns(1)
	p.where = path
	if unfit := p.prepare(); unfit != nil {
		return unfit
	}
	const readers = 2
	if p.read, err = sql.Open("sqlite", location+"?"+pragmas(true)+"&_pragma=query_only(1)"); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	p.read.SetMaxOpenConns(readers)
	return nil
}

// pragmas are what each connection to the database begins with. In WAL mode NORMAL keeps what is committed over the death of
// the process, and the file whole over that of the machine.
func pragmas(file bool) string {
	all := []string{"_pragma=busy_timeout(4000)", "_pragma=foreign_keys(1)", "_pragma=trusted_schema(0)"}
	if file {
		all = append(all, "_pragma=journal_mode(WAL)", "_pragma=synchronous(NORMAL)", "_pragma=journal_size_limit(16777216)")
	}
	return strings.Join(all, "&")
}

// schemaVersion is kept in the database: a newer one is not touched.
const schemaVersion = 1

// schema makes the tables, and for people a view with a line for each configuration. Times are milliseconds since 1970.
const schema = `
CREATE TABLE client (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	identity BLOB NOT NULL UNIQUE,
	principal TEXT NOT NULL, client_id TEXT NOT NULL, address TEXT NOT NULL, listener TEXT NOT NULL, protocol TEXT NOT NULL,
	software TEXT NOT NULL, software_version TEXT NOT NULL,
	last INTEGER NOT NULL,
	more INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX client_last ON client(last);
CREATE INDEX client_principal ON client(principal);
CREATE INDEX client_client_id ON client(client_id);
CREATE TABLE configuration (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	client INTEGER NOT NULL REFERENCES client(id) ON DELETE CASCADE,
	digest BLOB NOT NULL,
	run INTEGER NOT NULL, connection_id TEXT NOT NULL, connected INTEGER NOT NULL, shared INTEGER NOT NULL DEFAULT 0,
	first INTEGER NOT NULL, last INTEGER NOT NULL, pushes INTEGER NOT NULL,
	bytes INTEGER NOT NULL,
	entries TEXT NOT NULL,
	UNIQUE (client, digest)
);
CREATE VIEW pushed AS
	SELECT c.principal, c.client_id, c.address, c.listener, c.protocol, c.software, c.software_version,
		datetime(f.last / 1000, 'unixepoch') AS pushed_at,
		(SELECT count(*) FROM configuration o WHERE o.client = c.id) > 1 AS ambiguous,
		e.value ->> 0 AS key, e.value ->> 1 AS value, e.value ->> 2 AS type, e.value ->> 3 AS is_default, e.value ->> 4 AS redacted
	FROM client c JOIN configuration f ON f.client = c.id JOIN json_each(f.entries) e;
`

// prepare makes the tables in a database that has none, looks whether the others are whole, and counts what there is.
func (p *Policy) prepare() error {
	ctx := context.Background()
	fail := func(err error) error {
		return fmt.Errorf("client configurations %s cannot be used (without the file the broker begins a new one): %w", p.where, err)
	}
	var version int
	if err := p.write.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return fail(err)
	}
	switch {
	case version > schemaVersion:
		return fail(fmt.Errorf("they are of version %d, made by a newer broker than this, which knows %d", version, schemaVersion))
	case version == 0:
		if err := p.within(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA user_version = %d;", schemaVersion))
			return err
		}); err != nil {
			return fail(err)
		}
	default:
		if err := p.check(ctx); err != nil {
			return fail(err)
		}
	}
	if err := p.write.QueryRowContext(ctx, "SELECT count(*), coalesce(max(last), 0) FROM client").Scan(&p.clients, &p.tick); err != nil {
		return fail(err)
	}
	if err := p.prepareStatements(ctx); err != nil {
		return fail(err)
	}
	return nil
}

// patience bounds the look at the pages of a database when the broker starts. A store of 10,000 clients takes a tenth of it.
const patience = 3 * time.Second

// check looks at each page of the database, so that a damaged one is known when the broker starts, and not when the first
// client pushes. One that is too large to be looked at in time is used unseen.
func (p *Policy) check(ctx context.Context) error {
	ctx, end := context.WithTimeout(ctx, patience)
	defer end()
	var found string
	switch err := p.write.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found); {
	case ctx.Err() != nil:
		p.log.Warn("client configurations are too many to be looked at for damage", slog.String("file", p.where), slog.Duration("patience", patience))
		return nil
	case err != nil:
		return fmt.Errorf("look for damage: %w", err)
	case found != "ok":
		return fmt.Errorf("the file is damaged: %s", strings.ReplaceAll(found, "\n", " "))
	}
	return nil
}

// explain says what is to be done about an error that is there to stay.
func (p *Policy) explain(err error) error {
	var e *sqlite.Error
	const primary = 0xff
	if errors.As(err, &e) && (e.Code()&primary == codes.SQLITE_CORRUPT || e.Code()&primary == codes.SQLITE_NOTADB) {
		return fmt.Errorf("%s is damaged, and pushes fail until it is moved away and the broker is started again: %w", p.where, err)
	}
	return err
}

// within runs f in a transaction: all of it is kept, or nothing.
func (p *Policy) within(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := p.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err = f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if err = tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}
