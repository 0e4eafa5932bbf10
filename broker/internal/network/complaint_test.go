package network

import (
	"testing"
	"time"
)

func TestAStormOfFailuresIsLoggedInPartAndCounted(t *testing.T) {
	var c Complaint
	said := 0
	for range 10_000 {
		if say, unsaid := c.Admit(int64(500 * time.Millisecond)); say {
			said++
			if unsaid != 0 {
				t.Fatalf("the first failures say that %d were not logged", unsaid)
			}
		}
	}
	if said != complaintsASecond {
		t.Errorf("%d of 10,000 failures in a second are logged, want %d", said, complaintsASecond)
	}
	if say, unsaid := c.Admit(int64(1500 * time.Millisecond)); !say || unsaid != 10_000-complaintsASecond {
		t.Errorf("a second later: logged %v, with %d not logged before; want %d", say, unsaid, 10_000-complaintsASecond)
	}
	if say, unsaid := c.Admit(int64(1500 * time.Millisecond)); !say || unsaid != 0 {
		t.Errorf("the next one: logged %v, with %d not logged before; want 0", say, unsaid)
	}
}
