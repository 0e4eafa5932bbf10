package acl

import (
	"cmp"
	"slices"
	"strings"
)

// radix finds the prefixed patterns that begin a name: a tree whose edges are the bytes in which they differ.
type radix struct {
	edge     string
	pattern  *pattern // whose name ends here, if any
	children []*radix // by the first byte of their edges
}

// child finds the child whose edge begins with b, or where it would be.
func (r *radix) child(b byte) (int, bool) {
	return slices.BinarySearchFunc(r.children, b, func(c *radix, b byte) int { return cmp.Compare(c.edge[0], b) })
}

// prefixesOf goes over the patterns whose names begin name, shortest first.
func (r *radix) prefixesOf(name string, yield func(*pattern) bool) {
	for {
		if r.pattern != nil && !yield(r.pattern) {
			return
		}
		if name == "" {
			return
		}
		i, ok := r.child(name[0])
		if !ok || !strings.HasPrefix(name, r.children[i].edge) {
			return
		}
		r = r.children[i]
		name = name[len(r.edge):]
	}
}

func (r *radix) get(name string) *pattern {
	for name != "" {
		i, ok := r.child(name[0])
		if !ok || !strings.HasPrefix(name, r.children[i].edge) {
			return nil
		}
		r = r.children[i]
		name = name[len(r.edge):]
	}
	return r.pattern
}

func (r *radix) put(name string, p *pattern) {
	for name != "" {
		i, ok := r.child(name[0])
		if !ok {
			r.children = slices.Insert(r.children, i, &radix{edge: name, pattern: p})
			return
		}
		c := r.children[i]
		n := common(c.edge, name)
		if n < len(c.edge) {
			// The names part in the middle of the edge: a node goes in between.
			between := &radix{edge: c.edge[:n], children: []*radix{c}}
			c.edge = c.edge[n:]
			r.children[i] = between
			c = between
		}
		r, name = c, name[n:]
	}
	r.pattern = p
}

func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// remove takes a pattern's name out, and nodes that are of no use without it.
func (r *radix) remove(name string) {
	if name == "" {
		r.pattern = nil
		return
	}
	i, ok := r.child(name[0])
	if !ok || !strings.HasPrefix(name, r.children[i].edge) {
		return
	}
	c := r.children[i]
	c.remove(name[len(c.edge):])
	switch {
	case c.pattern != nil:
	case len(c.children) == 0:
		r.children = slices.Delete(r.children, i, i+1)
	case len(c.children) == 1:
		only := c.children[0]
		only.edge = c.edge + only.edge
		r.children[i] = only
	}
}

// all goes over every pattern; false says that yield wanted no more.
func (r *radix) all(yield func(*pattern) bool) bool {
	if r.pattern != nil && !yield(r.pattern) {
		return false
	}
	for _, c := range r.children {
		if !c.all(yield) {
			return false
		}
	}
	return true
}
