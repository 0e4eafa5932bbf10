package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/admin"
)

// orderOptions are the flags --sort and --limit.
type orderOptions struct {
	sort  []string
	limit int
}

// addOrder gives c the flags --sort and --limit.
func addOrder(c *cobra.Command, o *orderOptions, limit int) {
	f := c.Flags()
	f.StringSliceVar(&o.sort, "sort", nil, "sort by these `COLUMN[:desc]`, separated by commas")
	f.IntVar(&o.limit, "limit", limit, "print only the first `N` rows, after sorting; 0 for all")
}

// column is something that rows can be sorted by.
type column[T any] struct {
	name    string
	compare func(a, b *T) int
}

// by is a column whose key is compared by itself.
func by[T any, K cmp.Ordered](name string, key func(*T) K) column[T] {
	return column[T]{name, func(a, b *T) int { return cmp.Compare(key(a), key(b)) }}
}

// byAddress compares addresses as such: 10.0.0.9 is before 10.0.0.10.
func byAddress[T any](name string, key func(*T) string) column[T] {
	return column[T]{name, func(a, b *T) int {
		x, errX := netip.ParseAddr(key(a))
		y, errY := netip.ParseAddr(key(b))
		if errX != nil || errY != nil {
			return cmp.Compare(key(a), key(b))
		}
		return x.Compare(y)
	}}
}

// listColumns are what connections of every kind can be sorted by; of gives a row in the shape of KIP-1329.
func listColumns[T any](of func(*T) admin.ClientConnection) []column[T] {
	return []column[T]{
		by("node", func(r *T) int32 { return of(r).NodeID }),
		by("connection-id", func(r *T) string { return of(r).ConnectionID }),
		by("principal", func(r *T) string { return of(r).Principal }),
		byAddress("client-address", func(r *T) string { return of(r).ClientAddress }),
		by("port", func(r *T) int32 { return of(r).ClientPort }),
		by("listener", func(r *T) string { return of(r).ListenerName }),
		by("protocol", func(r *T) string { return of(r).SecurityProtocol }),
		by("software", func(r *T) string { return software(of(r).SoftwareName, of(r).SoftwareVersion) }),
		by("connected-since", func(r *T) int64 { return of(r).ConnectedSince }),
	}
}

// arranger puts rows in order and leaves the first of them.
type arranger[T any] func(rows []T) []T

// arrange reads --sort and --limit for rows that have these columns; what is wrong is said before a broker is asked.
func arrange[T any](o *orderOptions, columns []column[T]) (arranger[T], error) {
	if o.limit < 0 {
		return nil, usage("--limit: must be at least 0")
	}
	keys := make([]func(a, b *T) int, len(o.sort))
	problems := make([]error, len(o.sort))
	for i, text := range o.sort {
		keys[i], problems[i] = sortKey(text, columns)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, &ExitError{Code: 2, Err: err}
	}
	return func(rows []T) []T {
		slices.SortStableFunc(rows, func(a, b T) int {
			for _, compare := range keys {
				if n := compare(&a, &b); n != 0 {
					return n
				}
			}
			return 0
		})
		if o.limit > 0 && len(rows) > o.limit {
			rows = rows[:o.limit]
		}
		return rows
	}, nil
}

// sortKey reads one COLUMN[:desc].
func sortKey[T any](text string, columns []column[T]) (func(a, b *T) int, error) {
	name, direction, _ := strings.Cut(strings.ToLower(strings.TrimSpace(text)), ":")
	i := slices.IndexFunc(columns, func(c column[T]) bool { return c.name == name })
	if i < 0 {
		return nil, fmt.Errorf("--sort: there is no column %q here, but %s", name, names(columns))
	}
	compare := columns[i].compare
	switch direction {
	case "", "asc":
		return compare, nil
	case "desc":
		return func(a, b *T) int { return compare(b, a) }, nil
	}
	return nil, fmt.Errorf("--sort: %q is no direction of %s: use asc or desc", direction, name)
}

func names[T any](columns []column[T]) string {
	all := make([]string, len(columns))
	for i := range columns {
		all[i] = columns[i].name
	}
	return strings.Join(all, ", ")
}

// noteCut says on standard error that a table is not all.
func noteCut(env Env, shown, total int, what string) error {
	if shown == total {
		return nil
	}
	_, err := fmt.Fprintf(env.Stderr, "brokerlab: %d of %d %s are shown (--limit)\n", shown, total, what)
	return err
}

// cutTotal is how many rows there were before --limit, for JSON; nil when all are there.
func cutTotal(shown, total int) *int {
	if shown == total {
		return nil
	}
	return &total
}

// tableWidth is what a table takes of a terminal's columns at most: values are cut rather than lines broken.
const tableWidth = 100

// printTable prints rows, the first of which is the header, no wider than tableWidth: the values of the flexible columns
// are cut, the widest first.
func printTable(w io.Writer, rows [][]string, flexible ...int) error {
	const gap, least = 2, 8
	if len(rows) == 0 {
		return nil
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	over := gap*(len(widths)-1) - tableWidth
	for _, n := range widths {
		over += n
	}
	for ; over > 0; over-- {
		widest := slices.MaxFunc(flexible, func(a, b int) int { return cmp.Compare(widths[a], widths[b]) })
		if widths[widest] <= least {
			break
		}
		widths[widest]--
	}
	var text strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if runes := []rune(cell); len(runes) > widths[i] {
				cell = string(runes[:widths[i]-1]) + "…"
			}
			line.WriteString(pad(cell, widths[i]+gap))
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}
