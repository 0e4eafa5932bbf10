package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/brokerlab/brokerlab/broker/configpush"
)

// settling is how long after its connection was accepted a client may take to push, and have later connections be taken
// for its own.
const settling = 10 * time.Second

// held is a configuration of one client, without what is in it.
type held struct {
	id           int64
	digest       []byte
	connectionID string
	shared       bool // more than one connection has pushed it, or one of an earlier run
}

// candidate is a push that is to be kept, with all that can be made of it before its turn has come.
type candidate struct {
	push             *configpush.Push
	identity, digest []byte
	text             string // the entries, encoded
}

// pushError is why one push cannot be kept. Others may fare better.
type pushError struct{ err error }

func (e *pushError) Error() string { return e.err.Error() }
func (e *pushError) Unwrap() error { return e.err }

// Process keeps one push.
func (p *Policy) Process(ctx context.Context, push *configpush.Push) error {
	return p.ProcessAll(ctx, []*configpush.Push{push})[0]
}

// ProcessAll keeps pushes in one transaction, whose beginning and end cost as much as a push. If one of them cannot be kept,
// each gets a transaction of its own.
func (p *Policy) ProcessAll(ctx context.Context, pushes []*configpush.Push) []error {
	all := make([]candidate, len(pushes))
	for i, push := range pushes {
		all[i] = candidate{push, identityOf(push.Identity()), digestOf(push.Entries), encode(push.Entries)}
	}
	errs := make([]error, len(pushes))
	p.mu.Lock() // also over the look at connections: two pushes of one client are judged one after the other
	defer p.mu.Unlock()
	err := p.together(ctx, all, errs)
	var one *pushError
	if len(all) > 1 && errors.As(err, &one) {
		for i := range all {
			if err = p.together(ctx, all[i:i+1], errs[i:i+1]); err != nil && !errors.As(err, &one) {
				fill(errs[i+1:], err) // they would fare no better, and each wait for as long
				break
			}
		}
	}
	return errs
}

// together keeps candidates in one transaction, all of them or none but those whose time is up, and tells in errs what became
// of each. Its caller holds mu.
func (p *Policy) together(ctx context.Context, all []candidate, errs []error) error {
	clear(errs)
	var undo []func()
	steady := context.WithoutCancel(ctx) // one that can end costs each statement a goroutine; all of them together do not take long
	err := p.within(ctx, func(tx *sql.Tx) error {
		for i := range all {
			c := &all[i]
			if d := c.push.Deadline; !d.IsZero() && time.Now().After(d) {
				errs[i] = context.DeadlineExceeded // nobody wants the answer
				continue
			}
			p.tick = max(p.tick+1, time.Now().UnixMilli())
			done, err := p.change(steady, tx, c)
			if err != nil {
				return &pushError{err}
			}
			undo = append(undo, p.remember(c.push, &done)...)
		}
		return nil
	})
	if err != nil {
		for _, u := range slices.Backward(undo) {
			u()
		}
		err = fmt.Errorf("keep clients' configurations: %w", p.explain(err))
		fill(errs, err)
	}
	return err
}

func fill(errs []error, err error) {
	for i := range errs {
		errs[i] = err
	}
}

// remember notes in memory what a push has changed, and returns how that is undone. Its caller holds mu.
func (p *Policy) remember(push *configpush.Push, c *change) (undo []func()) {
	p.clients += c.clients
	undo = append(undo, func() { p.clients -= c.clients })
	for _, id := range c.gone {
		if had := p.pushers[id]; had != nil {
			delete(p.pushers, id)
			undo = append(undo, func() { p.pushers[id] = had })
		}
	}
	for i := range c.others {
		if all := p.pushers[c.others[i].id]; all != nil {
			if _, had := all.by[push.ConnectionID]; had {
				delete(all.by, push.ConnectionID) // it has another now
				undo = append(undo, func() { all.by[push.ConnectionID] = struct{}{} })
			}
		}
	}
	return append(undo, p.note(c.kept, push))
}

// change is what a push makes of what is held.
type change struct {
	kept    int64   // the row that the push is now
	others  []held  // what was held of the same client
	gone    []int64 // rows that are no more
	clients int64   // how many more there are
}

func (p *Policy) change(ctx context.Context, tx *sql.Tx, it *candidate) (c change, err error) {
	client, isNew, err := p.client(ctx, tx, it, p.tick)
	if err != nil {
		return c, err
	}
	if isNew {
		c.clients = 1
	} else if c.others, err = p.configurations(ctx, tx, client); err != nil {
		return c, err
	}
	if c.kept, c.gone, err = p.keep(ctx, tx, client, c.others, it); err != nil {
		return c, err
	}
	if over := p.clients + c.clients - p.most.Load(); over > 0 {
		evicted, gone, unfit := p.evict(ctx, tx, over)
		c.clients -= evicted
		c.gone = append(c.gone, gone...)
		return c, unfit
	}
	return c, nil
}

// client finds the row of an identity, or makes it.
func (p *Policy) client(ctx context.Context, tx *sql.Tx, it *candidate, now int64) (id int64, isNew bool, err error) {
	err = p.in(ctx, tx, findClient).QueryRowContext(ctx, it.identity).Scan(&id)
	switch {
	case err == nil:
		_, err = p.in(ctx, tx, touchClient).ExecContext(ctx, now, id)
		return id, false, err
	case !errors.Is(err, sql.ErrNoRows):
		return 0, false, err
	}
	shown, push := configpush.Printable, it.push
	made, err := p.in(ctx, tx, addClient).ExecContext(ctx, it.identity, shown(push.Principal), shown(push.ClientID), push.Address.String(), shown(push.Listener),
		push.Protocol, shown(push.Software), shown(push.SoftwareVersion), now)
	if err != nil {
		return 0, false, err
	}
	id, err = made.LastInsertId()
	return id, true, err
}

func (p *Policy) configurations(ctx context.Context, tx *sql.Tx, client int64) (all []held, err error) {
	rows, err := p.in(ctx, tx, findConfigurations).QueryContext(ctx, p.run, client)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	for rows.Next() {
		var h held
		if unfit := rows.Scan(&h.id, &h.digest, &h.connectionID, &h.shared); unfit != nil {
			return nil, unfit
		}
		all = append(all, h)
	}
	return all, rows.Err()
}

// keep writes a push beside what the client has, or in its place. It returns the row that it is now, and those that are no more.
func (p *Policy) keep(ctx context.Context, tx *sql.Tx, client int64, all []held, it *candidate) (id int64, gone []int64, err error) {
	push := it.push
	now := push.Received.UnixMilli()
	same := slices.IndexFunc(all, func(h held) bool { return bytes.Equal(h.digest, it.digest) })
	for i := range p.superseded(all, same, push) {
		gone = append(gone, i)
	}
	over := len(all) - len(gone) - mostConfigurations
	if same < 0 {
		over++
	}
	for i := range all { // the oldest first
		if over > 0 && i != same && !slices.Contains(gone, all[i].id) {
			gone = append(gone, all[i].id)
			over--
			if _, err = p.in(ctx, tx, countMore).ExecContext(ctx, client); err != nil {
				return 0, nil, err
			}
		}
	}
	for _, i := range gone {
		if _, err = p.in(ctx, tx, dropConfiguration).ExecContext(ctx, i); err != nil {
			return 0, nil, err
		}
	}
	if len(all) > 0 && len(gone) >= len(all)-min(same+1, 1) { // none is left but the same
		if _, err = p.in(ctx, tx, forgetMore).ExecContext(ctx, client); err != nil {
			return 0, nil, err
		}
	}
	if same >= 0 {
		h := &all[same]
		_, err = p.in(ctx, tx, countConfiguration).ExecContext(ctx, h.shared || h.connectionID != push.ConnectionID, p.run, push.ConnectionID, push.Connected.UnixMilli(),
			now, push.Bytes, it.text, h.id)
		return h.id, gone, err
	}
	made, err := p.in(ctx, tx, addConfiguration).ExecContext(ctx, client, it.digest, p.run, push.ConnectionID, push.Connected.UnixMilli(), now, now, push.Bytes, it.text)
	if err != nil {
		return 0, nil, err
	}
	id, err = made.LastInsertId()
	return id, gone, err
}

// superseded walks the configurations that nobody can have any more, now that push has come; that of index same stays.
func (p *Policy) superseded(all []held, same int, push *configpush.Push) func(func(int64) bool) {
	return func(yield func(int64) bool) {
		if len(all) == 0 || same == 0 && len(all) == 1 {
			return
		}
		open, strangers := p.openOf(all, push)
		for i := range all {
			h := &all[i]
			switch {
			case i == same:
				continue
			case slices.ContainsFunc(open, func(id string) bool { return id != push.ConnectionID && p.pushed(h.id, id) }):
				continue // its client is there
			case !h.shared && h.connectionID == push.ConnectionID: // the same client says something else
			case strangers:
				continue // one of them may be its client's
			}
			if !yield(h.id) {
				return
			}
		}
	}
}

// openOf lists the open connections of a push's identity, and tells whether there is one beside that of the push which has
// pushed nothing: it may belong to anybody who pushed over another. One that came after a new client's own is taken for
// that client's.
func (p *Policy) openOf(all []held, push *configpush.Push) (open []string, strangers bool) {
	if p.open == nil {
		return nil, false
	}
	first := !slices.ContainsFunc(all, func(h held) bool { return p.pushed(h.id, push.ConnectionID) })
	young := first && push.Received.Sub(push.Connected) < settling
	identity := push.Identity()
	for c := range p.open(&identity) {
		open = append(open, c.ConnectionID)
		known := c.ConnectionID == push.ConnectionID || slices.ContainsFunc(all, func(h held) bool { return p.pushed(h.id, c.ConnectionID) })
		if !known && (!young || !c.Connected.After(push.Connected)) {
			strangers = true
		}
	}
	return open, strangers
}

// pushed tells whether a connection has pushed a configuration in this run.
func (p *Policy) pushed(configuration int64, connection string) bool {
	all := p.pushers[configuration]
	if all == nil {
		return false
	}
	_, ok := all.by[connection]
	return ok
}

// note remembers who pushed what, and returns how to forget it. Its caller holds mu.
func (p *Policy) note(configuration int64, push *configpush.Push) (undo func()) {
	all := p.pushers[configuration]
	if all == nil {
		p.pushers[configuration] = &pushers{by: map[string]struct{}{push.ConnectionID: {}}, at: p.tick}
		return func() { delete(p.pushers, configuration) }
	}
	const many = 64
	if n := len(all.by); n >= many && n&(n-1) == 0 && p.open != nil { // connections come and go
		open := map[string]struct{}{}
		identity := push.Identity()
		for c := range p.open(&identity) {
			if _, ok := all.by[c.ConnectionID]; ok {
				open[c.ConnectionID] = struct{}{}
			}
		}
		all.by = open
	}
	_, had := all.by[push.ConnectionID]
	before := all.at
	all.by[push.ConnectionID], all.at = struct{}{}, p.tick
	return func() {
		all.at = before
		if !had {
			delete(all.by, push.ConnectionID)
		}
	}
}

// evict takes the clients out that have not pushed for longest. It tells how many, and which configurations they had.
func (p *Policy) evict(ctx context.Context, tx *sql.Tx, over int64) (clients int64, gone []int64, err error) {
	rows, err := p.in(ctx, tx, findOldest).QueryContext(ctx, over)
	if err != nil {
		return 0, nil, err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	for rows.Next() {
		var id int64
		if unfit := rows.Scan(&id); unfit != nil {
			return 0, nil, unfit
		}
		gone = append(gone, id)
	}
	if unfit := rows.Err(); unfit != nil {
		return 0, nil, unfit
	}
	done, err := p.in(ctx, tx, dropOldest).ExecContext(ctx, over)
	if err != nil {
		return 0, nil, err
	}
	clients, err = done.RowsAffected()
	return clients, gone, err
}

// identityOf is what tells clients apart, exactly as they sent it.
func identityOf(i configpush.Identity) []byte {
	return sum(i.Principal, i.ClientID, i.Address.String(), i.Listener, i.Software, i.SoftwareVersion)
}

// digestOf is the same for the same configurations in another order. It is made of what is kept, not of secrets.
func digestOf(entries []configpush.Entry) []byte {
	order := make([]*configpush.Entry, len(entries))
	for i := range entries {
		order[i] = &entries[i]
	}
	slices.SortFunc(order, func(a, b *configpush.Entry) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Type, b.Type))
	})
	texts := make([]string, 0, 3*len(order))
	for _, e := range order {
		kind := append(strconv.AppendInt(nil, int64(e.Type), 10), ' ')
		kind = append(strconv.AppendBool(kind, e.Default), ' ')
		texts = append(texts, e.Key, e.Value, string(strconv.AppendBool(kind, e.Redacted)))
	}
	return sum(texts...)
}

func sum(texts ...string) []byte {
	h := sha256.New()
	for _, t := range texts {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(t)))) // a hash takes everything
		_, _ = h.Write([]byte(t))
	}
	return h.Sum(nil)
}

// encode writes entries as the view pushed reads them: a list of [key, value, type, is default, redacted].
func encode(entries []configpush.Entry) string {
	text := append(make([]byte, 0, 64*len(entries)+2), '[')
	for i := range entries {
		e := entries[i]
		if configpush.Sensitive(e.Key, e.Type) || configpush.SensitiveValue(e.Value) { // whoever calls may not have done it
			e.Value, e.Redacted = configpush.Redacted, true
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = appendText(append(text, '['), e.Key)
		text = appendText(append(text, ','), e.Value)
		text = strconv.AppendInt(append(text, ','), int64(e.Type), 10)
		text = strconv.AppendBool(append(text, ','), e.Default)
		text = append(strconv.AppendBool(append(text, ','), e.Redacted), ']')
	}
	return string(append(text, ']'))
}

// appendText appends a JSON string. Nothing that is printable needs to be escaped in it but quotes and backslashes.
func appendText(text []byte, s string) []byte {
	s = configpush.Printable(s)
	text = append(text, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			text = append(text, '\\')
		}
		text = append(text, s[i])
	}
	return append(text, '"')
}

func decode(text string) ([]configpush.Entry, error) {
	var list [][5]json.RawMessage
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("decode a client's configuration: %w", err)
	}
	entries := make([]configpush.Entry, len(list))
	for i := range list {
		e := &entries[i]
		for j, into := range []any{&e.Key, &e.Value, &e.Type, &e.Default, &e.Redacted} {
			if err := json.Unmarshal(list[i][j], into); err != nil {
				return nil, fmt.Errorf("decode a client's configuration: %w", err)
			}
		}
	}
	return entries, nil
}
