package feature

import (
	"fmt"
	"strings"
	"testing"
)

// The table of MetadataVersion.java, written out.
func TestLevelsAreKafkas(t *testing.T) {
	t.Parallel()
	const table = `7 3.3-IV3 T, 8 3.4-IV0 T, 9 3.5-IV0 F, 10 3.5-IV1 F, 11 3.5-IV2 T, 12 3.6-IV0 F, 13 3.6-IV1 T, 14 3.6-IV2 T, 15 3.7-IV0 T,
16 3.7-IV1 F, 17 3.7-IV2 T, 18 3.7-IV3 F, 19 3.7-IV4 F, 20 3.8-IV0 F, 21 3.9-IV0 F, 22 4.0-IV0 F, 23 4.0-IV1 T, 24 4.0-IV2 F, 25 4.0-IV3 F,
26 4.1-IV0 F, 27 4.1-IV1 F, 28 4.2-IV0 F, 29 4.2-IV1 F, 30 4.3-IV0 T, 31 4.4-IV0 F, 32 4.4-IV1 T, 33 4.4-IV2 T`
	rows := strings.Split(strings.ReplaceAll(table, "\n", " "), ", ")
	versions := Versions()
	if len(versions) != len(rows) {
		t.Fatalf("%d levels, want %d", len(versions), len(rows))
	}
	for i, v := range versions {
		changes := "F"
		if v.Changes {
			changes = "T"
		}
		if got := strings.Join([]string{itoa(v.Level), v.Name, changes}, " "); got != rows[i] {
			t.Errorf("level %d is %s, want %s", v.Level, got, rows[i])
		}
		if level, err := Parse(v.Name); err != nil || level != v.Level || Name(v.Level) != v.Name {
			t.Errorf("Parse(%s) = %d, %v", v.Name, level, err)
		}
	}
}

func itoa(level int16) string {
	if level < 10 {
		return string(rune('0' + level))
	}
	return string(rune('0'+level/10)) + string(rune('0'+level%10))
}

func TestAReleaseIsItsLastLevel(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]int16{"3.3": 7, "3.5": 11, "3.9": 21, "4.0": 25, "4.3": 30, "4.4": 33} {
		if got, err := Parse(release); err != nil || got != want {
			t.Errorf("Parse(%s) = %d, %v, want %d", release, got, err, want)
		}
	}
	for _, bad := range []string{"", "4", "4.5", "4.4-iv1", "4.4-IV3", "33"} {
		if _, err := Parse(bad); err == nil || !strings.HasPrefix(err.Error(), "Unknown metadata.version '"+bad+"'. Supported metadata.version are: 3.3-IV3, ") {
			t.Errorf("Parse(%s) = %v", bad, err)
		}
	}
}

func TestWhichDowngradesLoseSomething(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to int16
		want     bool
	}{{33, 32, true}, {32, 31, true}, {31, 30, false}, {30, 29, true}, {29, 28, false}, {33, 33, false}, {33, 7, true}, {30, 33, false}} {
		if got := Lossy(c.from, c.to); got != c.want {
			t.Errorf("Lossy(%d, %d) = %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

// What StorageTool of Kafka 4.4.0 printed for version-mapping of the same levels.
func TestDefaultsOfOtherFeaturesAreThoseOfTheirLevel(t *testing.T) {
	t.Parallel()
	for level, want := range map[int16]string{
		7:  "map[]",
		22: "map[group.version:1]",
		24: "map[group.version:1 transaction.version:2]",
		27: "map[eligible.leader.replicas.version:1 group.version:1 transaction.version:2]",
		28: "map[eligible.leader.replicas.version:1 group.version:1 share.version:1 transaction.version:2]",
		30: "map[eligible.leader.replicas.version:1 group.version:1 share.version:1 streams.version:1 transaction.version:2]",
		33: "map[eligible.leader.replicas.version:1 group.version:1 share.version:2 streams.version:1 transaction.version:2]",
	} {
		if got := fmt.Sprint(Defaults(level)); got != want {
			t.Errorf("Defaults(%d) = %s, want %s", level, got, want)
		}
	}
}
