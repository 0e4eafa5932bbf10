package sockacct

import "testing"

func TestLoad(t *testing.T) {
	c, err := Load(Options{})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Logf("%+v %+v", c.Seeding(), c.Listing())
	c.Close()
}
