package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Java's messages refuse a null where an array has to be; kmsg reads it as an empty one.
func TestANullArrayIsSeenWhereNoneMayBe(t *testing.T) {
	t.Parallel()
	null4 := []byte{0xff, 0xff, 0xff, 0xff}
	none4 := []byte{0, 0, 0, 0}
	for _, c := range []struct {
		name    string
		req     kmsg.Request
		version int16
		body    []byte
		want    bool
	}{
		{"metadata of no topics before nulls", kmsg.NewPtrMetadataRequest(), 0, null4, true},
		{"metadata of empty topics", kmsg.NewPtrMetadataRequest(), 0, none4, false},
		{"metadata of all topics", kmsg.NewPtrMetadataRequest(), 1, null4, false},
		{"metadata of none", kmsg.NewPtrMetadataRequest(), 1, none4, false},
		{"groups", kmsg.NewPtrDescribeGroupsRequest(), 0, null4, true},
		{"no groups", kmsg.NewPtrDescribeGroupsRequest(), 0, none4, false},
		{"groups of a flexible version", kmsg.NewPtrDescribeGroupsRequest(), 5, []byte{0, 0, 0}, true},
		{"no groups of a flexible version", kmsg.NewPtrDescribeGroupsRequest(), 5, []byte{1, 0, 0}, false},
		{"all topics of a flexible version", kmsg.NewPtrMetadataRequest(), 9, []byte{0, 1, 0, 0, 0}, false},
		{"what is behind the end", kmsg.NewPtrDescribeGroupsRequest(), 0, append(none4, null4...), false},
	} {
		c.req.SetVersion(c.version)
		if err := c.req.ReadFrom(c.body); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := hasNullArray(c.req, c.body); got != c.want {
			t.Errorf("%s: hasNullArray = %t, want %t", c.name, got, c.want)
		}
	}
}
