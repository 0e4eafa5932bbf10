package store

import (
	"context"
	"database/sql"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/brokerlab/brokerlab/broker/configpush"
)

// List tells what is held; see [configpush.Lister].
func (p *Policy) List(ctx context.Context, f configpush.Filter) ([]configpush.Client, error) {
	p.mu.Lock()
	tick := p.tick
	p.mu.Unlock()
	open := p.allOpen()
	found, err := p.find(ctx, &f)
	if err != nil {
		return nil, fmt.Errorf("list clients' configurations: %w", p.explain(err))
	}
	clients := make([]configpush.Client, 0, len(found))
	for i := range found {
		p.settle(&found[i], tick, open)
		if (!f.Ambiguous || found[i].client.Ambiguous()) && (f.Most <= 0 || len(clients) < f.Most) {
			clients = append(clients, found[i].client)
		}
	}
	return clients, nil
}

// find reads the clients that pass f, and whether they are ambiguous is not known yet: then all, however many are wanted.
func (p *Policy) find(ctx context.Context, f *configpush.Filter) (found []row, err error) {
	query, args := listing(f)
	rows, err := p.read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	for rows.Next() {
		r, unfit := scan(rows, f.Entries)
		if unfit != nil {
			return nil, unfit
		}
		if f.Address.IsValid() && !f.Address.Contains(r.client.Address.WithZone("")) {
			continue
		}
		if n := len(found); n > 0 && found[n-1].client.ID == r.client.ID {
			last := &found[n-1]
			last.client.Configurations = append(last.client.Configurations, r.client.Configurations...)
			last.ids, last.runs = append(last.ids, r.ids...), append(last.runs, r.runs...)
			continue
		}
		if f.Most > 0 && len(found) == f.Most && !f.Ambiguous {
			break
		}
		found = append(found, r)
	}
	return found, rows.Err()
}

// row is a client with its configurations, their ids and the runs in which they came last.
type row struct {
	client   configpush.Client
	identity []byte
	ids      []int64
	runs     []int64
}

func listing(f *configpush.Filter) (query string, args []any) {
	entries := "''"
	if f.Entries {
		entries = "f.entries"
	}
	var b strings.Builder
	b.WriteString(`SELECT c.id, c.identity, c.principal, c.client_id, c.address, c.listener, c.protocol, c.software, c.software_version, c.more,
		f.id, f.run, f.connection_id, f.first, f.last, f.pushes, f.bytes, ` + entries + `
		FROM client c JOIN configuration f ON f.client = c.id WHERE c.id > ?`)
	args = append(args, f.After)
	for _, by := range []struct {
		column string
		value  *string
	}{{"principal", f.Principal}, {"client_id", f.ClientID}, {"listener", f.Listener}, {"software", f.Software}} {
		if by.value != nil {
			b.WriteString(" AND c." + by.column + " = ?")
			args = append(args, *by.value)
		}
	}
	if f.Ambiguous {
		b.WriteString(" AND (SELECT count(*) FROM configuration o WHERE o.client = c.id) > 1")
	}
	b.WriteString(" ORDER BY c.id, f.last DESC, f.id DESC")
	return b.String(), args
}

func scan(rows *sql.Rows, entries bool) (r row, err error) {
	var address, text string
	var first, last int64
	var c configpush.Configuration
	var id, run int64
	if unfit := rows.Scan(&r.client.ID, &r.identity, &r.client.Principal, &r.client.ClientID, &address, &r.client.Listener, &r.client.Protocol,
		&r.client.Software, &r.client.SoftwareVersion, &r.client.More, &id, &run, &c.ConnectionID, &first, &last, &c.Pushes, &c.Bytes, &text); unfit != nil {
		return row{}, unfit
	}
	r.client.Address, _ = netip.ParseAddr(address) // people may have altered it
	c.First, c.Last = time.UnixMilli(first), time.UnixMilli(last)
	if entries {
		if c.Entries, err = decode(text); err != nil {
			return row{}, err
		}
	}
	r.client.Configurations, r.ids, r.runs = []configpush.Configuration{c}, []int64{id}, []int64{run}
	return r, nil
}

// allOpen groups the open connections by identity, as the database writes that; nil when nobody tells.
func (p *Policy) allOpen() map[string][]string {
	if p.open == nil {
		return nil
	}
	open := map[string][]string{}
	sums := map[configpush.Identity]string{} // thousands of connections may have few identities
	for c := range p.open(nil) {
		i := c.Identity()
		key, ok := sums[i]
		if !ok {
			key = string(identityOf(i))
			sums[i] = key
		}
		open[key] = append(open[key], c.ConnectionID)
	}
	return open
}

// settle adds what is known of a client's connections, and leaves out the configurations that nobody can have: every open
// connection has pushed another. all are the connections that were open after a tick; who pushed later than that is there as well.
func (p *Policy) settle(r *row, tick int64, all map[string][]string) {
	r.client.Open = -1
	if all == nil {
		return
	}
	open := all[string(r.identity)]
	r.client.Open = len(open)
	p.mu.Lock()
	defer p.mu.Unlock()
	present, strangers := p.present(r, open) // whose client is there
	somebody := false
	for i := range present {
		c := &r.client.Configurations[i]
		c.Open = r.runs[i] == p.run && slices.Contains(open, c.ConnectionID)
		by := p.pushers[r.ids[i]]
		present[i] = present[i] || by != nil && by.at > tick
		somebody = somebody || present[i]
	}
	if strangers || !somebody {
		return
	}
	kept := r.client.Configurations[:0]
	for i := range r.client.Configurations {
		if present[i] {
			kept = append(kept, r.client.Configurations[i])
		}
	}
	r.client.Configurations = kept
}

// present tells which configurations an open connection has pushed, and whether there are connections that have pushed
// none of them. Its caller holds mu.
func (p *Policy) present(r *row, open []string) (present []bool, strangers bool) {
	present = make([]bool, len(r.ids))
	for _, id := range open {
		known := false
		for i := range r.ids {
			if p.pushed(r.ids[i], id) {
				known, present[i] = true, true
			}
		}
		strangers = strangers || !known
	}
	return present, strangers
}
