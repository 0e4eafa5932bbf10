package clients

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

var (
	matrix = flag.Bool("matrix", false, "try every protocol and family with every client (many minutes)")
	update = flag.Bool("update", false, "write docs/clients.md and testdata/results.json from this run")
	kafka  = flag.Bool("kafka", false, "use a broker of Apache Kafka in place of ours, to compare it with the page")
	page   = flag.Bool("page", false, "write docs/clients.md from testdata/results.json")
	over   = flag.String("over", "", "try only these `pairs`, such as SSL/IPv6, separated by commas")
	only   = flag.String("only", "", "run only these `clients`, separated by commas")
)

func TestMain(m *testing.M) {
	flag.Parse()
	side := "8" // most of the time is spent waiting for what clients do next
	if *kafka {
		side = "2" // a virtual machine for each broker
	}
	if err := flag.Set("test.parallel", side); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// tried are the pairs that this run tries: of those a client must work over, and of those over which it must survive.
func tried(c client) (works, survives []pair) {
	if *over != "" {
		chosen := slices.DeleteFunc(pairs(), func(p pair) bool { return !slices.Contains(strings.Split(*over, ","), p.String()) })
		return chosen, chosen
	}
	if *matrix {
		return pairs(), pairs()
	}
	for _, p := range pairs() {
		switch p.String() {
		case "PLAINTEXT/IPv4":
			works = append(works, p)
		case "SASL_SSL/IPv6":
			if c.patience > 1 {
				works = nil // one pair must do
			}
			works = append(works, p)
		case "SASL_PLAINTEXT/IPv4":
			survives = append(survives, p)
		}
	}
	return works, survives
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	dir := t.TempDir()
	binary, err := brokerBinary(dir)
	if err != nil {
		t.Fatal(err)
	}
	made, err := kit.NewPKI(dir, "clients")
	if err != nil {
		t.Fatal(err)
	}
	return &workshop{
		ctx: t.Context(), dir: dir, kept: filepath.Join(tree(), "build", "clients"), programs: filepath.Join(tree(), "e2e", "clients", "programs"),
		broker: binary, pki: made,
	}
}

// Every client does what the committed page says of it over each pair that is tried, and goes on after each trouble.
func TestEveryClientDoesWhatThePageSays(t *testing.T) {
	t.Parallel()
	w, run := newWorkshop(t), &results{}
	t.Cleanup(func() {
		name := "results.json"
		if *kafka {
			name = "results-kafka.json"
		}
		run.write(t, filepath.Join(w.kept, name))
		run.tell(t, filepath.Join(w.kept, "skipped.txt"))
		switch {
		case *update && *kafka:
			run.updateKafka(t)
		case *update:
			run.update(t)
		}
	})
	before := readResults(t)
	for _, c := range list() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if why := c.leftOut(); why != "" {
				t.Skip(why)
			}
			command, err := c.build(w)
			if why, missing := unavailable(err); missing {
				run.skip(c.name, why)
				t.Skipf("%s: %s", c.name, why)
			}
			if err != nil {
				t.Fatal(err)
			}
			said := (&program{command: command}).ask(t, request{Op: "version", TimeoutMS: 60_000})
			if said.Version == "" {
				t.Fatalf("%s version = %+v, want a line with its version", c.name, said)
			}
			got := run.client(c, said)
			known := before.find(c.name)
			works, survives := tried(c)
			t.Run("works", func(t *testing.T) {
				t.Parallel()
				b, program := startBroker(t, w), &program{command: command, serves: c.serves}
				for _, p := range works {
					b.tryPair(t, c, known, got, program, p)
				}
				b.tryRefusals(t, known, got, program)
				if !*update {
					got.compareCells(t, known, works)
				}
			})
			t.Run("survives being idle", func(t *testing.T) {
				t.Parallel()
				idle(t, w, got, command, primary())
				if !*update {
					got.compareTroubles(t, known, primary(), "idle")
				}
			})
			for _, p := range survives {
				t.Run("survives "+p.String(), func(t *testing.T) {
					if first, ok := known.Cells[p.String()]["metadata"]; ok && !first.Works {
						t.Skip("it does not connect this way, says the page")
					}
					t.Parallel()
					survive(t, w, known, got, command, p)
					if !*update {
						got.compareTroubles(t, known, p, "slot", "reauth", "evicted", "restart", "eof")
						got.compareSoftware(t, known)
					}
				})
			}
		})
	}
}

// The page is what the committed results make of it.
func TestThePageIsMadeOfTheResults(t *testing.T) {
	if *page {
		readResults(t).writePage(t)
	}
	if *update {
		t.Skip("the page is being made")
	}
	got, err := os.ReadFile(filepath.Join(tree(), "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := readResults(t).page(); string(got) != want {
		t.Errorf("docs/clients.md is not what testdata/results.json makes: go test ./e2e/clients -run ^TestThePage -page writes it")
	}
}

// The page has each client of the list, and no other.
func TestThePageHasEachClientOfTheList(t *testing.T) {
	if *update {
		t.Skip("the page is being made")
	}
	var listed, there []string
	for _, c := range list() {
		listed = append(listed, c.name)
	}
	for _, r := range readResults(t).Clients {
		there = append(there, r.Client)
	}
	if fmt.Sprint(there) != fmt.Sprint(listed) {
		t.Errorf("clients in testdata/results.json = %v, want those of the list, %v", there, listed)
	}
}
