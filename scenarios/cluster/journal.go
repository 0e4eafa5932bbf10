package cluster

import (
	"fmt"
	"maps"
	"sync"
	"time"
)

// lane is what goes in order: the records that clients of one kind produce to one partition.
type lane struct {
	kind      kind
	partition int32
}

// place is where a record is.
type place struct {
	lane

	offset int64
}

func (p place) String() string {
	return fmt.Sprintf("(partition %d, offset %d)", p.partition, p.offset)
}

// journal is what clients were told: which records are acknowledged, and which each kind's group has got. Safe for concurrent use.
type journal struct {
	mu       sync.Mutex // guards what follows
	acked    map[string]place
	last     map[lane]time.Time // of its last acknowledgement
	longest  map[kind]time.Duration
	refused  map[string]int // errors of records that were not acknowledged
	consumed map[kind]map[string]bool
}

func newJournal() *journal {
	return &journal{acked: map[string]place{}, last: map[lane]time.Time{}, longest: map[kind]time.Duration{}, refused: map[string]int{}, consumed: map[kind]map[string]bool{}}
}

// acknowledge notes that a record is acknowledged, at an offset; one below 0 is not known.
func (j *journal) acknowledge(l lane, value string, offset int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if before, ok := j.last[l]; ok {
		j.longest[l.kind] = max(j.longest[l.kind], now.Sub(before))
	}
	j.acked[value], j.last[l] = place{l, offset}, now
}

// refuse notes that a record is not acknowledged.
func (j *journal) refuse(l lane, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refused[string(l.kind)+": "+why]++
}

// got notes that the group of a kind has a record.
func (j *journal) got(k kind, value string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.consumed[k] == nil {
		j.consumed[k] = map[string]bool{}
	}
	j.consumed[k][value] = true
}

// acknowledged is how many records have been.
func (j *journal) acknowledged() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.acked)
}

// by is how many records of each kind have been acknowledged, and the longest that one waited between two of a partition.
func (j *journal) by() (count map[kind]int, longest map[kind]time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	count = map[kind]int{}
	for _, p := range j.acked {
		count[p.kind]++
	}
	return count, maps.Clone(j.longest)
}

// all is every record that was acknowledged.
func (j *journal) all() map[string]place {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.acked)
}

// silent are those lanes of these kinds in which nothing was acknowledged since.
func (j *journal) silent(kinds []kind, since time.Time) []lane {
	j.mu.Lock()
	defer j.mu.Unlock()
	var missing []lane
	for _, k := range kinds {
		for p := range int32(partitions) {
			if l := (lane{k, p}); j.last[l].Before(since) {
				missing = append(missing, l)
			}
		}
	}
	return missing
}

// refusals counts the errors of records that were not acknowledged.
func (j *journal) refusals() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.refused)
}

// unconsumed are some of the records that were acknowledged and that the group of a kind has not got.
func (j *journal) unconsumed(k kind) []string {
	const some = 5
	j.mu.Lock()
	defer j.mu.Unlock()
	var missing []string
	for value := range j.acked {
		if len(missing) < some && !j.consumed[k][value] {
			missing = append(missing, value)
		}
	}
	return missing
}
