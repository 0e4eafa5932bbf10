package clients

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// results are what a run saw. Clients stand in the order of the list.
type results struct {
	mu      sync.Mutex
	Clients []*result `json:"clients"`
	skipped []string  // who could not be had, and why
	kafka   cellsOfKafka
}

// result is what a run saw of one client. What has a method is guarded by mu.
type result struct {
	mu       sync.Mutex
	Client   string `json:"client"`
	Language string `json:"language"`
	Library  string `json:"library"`
	Version  string `json:"version"`
	// Software is the name and version that it gives the broker, empty where it gives none.
	Software   string `json:"software"`
	Idempotent bool   `json:"idempotent"`
	// Cells has by pair, then by operation, how it went.
	Cells map[string]map[string]cell `json:"cells"`
	// Opens has by operation how many connections it opened over the first pair, and AtOnce how many a producer and a
	// consumer in a group have open.
	Opens  map[string]int `json:"opens"`
	AtOnce int            `json:"at_once"`
	// Refusals has by what was refused what the client said.
	Refusals map[string]refusal `json:"refusals"`
	// Troubles has by pair, then by trouble, how it fared.
	Troubles map[string]map[string]trouble `json:"troubles"`
}

// cell is how one operation went.
type cell struct {
	Works bool `json:"works"`
	// Unsupported says why the client has no such operation.
	Unsupported string `json:"unsupported,omitempty"`
	// Said is the error, or what is to be remarked.
	Said string `json:"said,omitempty"`
}

func cellOf(l *line) cell {
	return cell{Works: l.Error == "" && l.Unsupported == "", Unsupported: l.Unsupported, Said: steady(l.said())}
}

// refusal is what a client says that was refused.
type refusal struct {
	Said string `json:"said"`
	// Told is whether its words say what was refused.
	Told bool `json:"told"`
	// Class is the error's class or code, Retriable what the library says of it.
	Class     string `json:"class,omitempty"`
	Retriable *bool  `json:"retriable,omitempty"`
	// MS is how long it took to say so, and Times how often it tried.
	MS    int64 `json:"ms"`
	Times int   `json:"times,omitempty"`
}

// trouble is how a client fared in one.
type trouble struct {
	// Works is whether it went on when the trouble was over.
	Works bool `json:"works"`
	// ResumedMS is how long after the end of the trouble the first round went well.
	ResumedMS int64 `json:"resumed_ms"`
	// Said are the errors that it told of meanwhile, each once.
	Said []string `json:"said,omitempty"`
	// Times is how often it happened: evictions, re-authentications, connections that were closed at accept.
	Times int `json:"times,omitempty"`
	// Killed is how many connections were closed because their sessions had ended.
	Killed int `json:"killed,omitempty"`
}

// client makes the entry of a client.
func (r *results) client(c client, said *line) *result {
	r.mu.Lock()
	defer r.mu.Unlock()
	made := &result{
		Client: c.name, Language: c.language, Library: said.Name, Version: said.Version, Opens: map[string]int{}, Cells: map[string]map[string]cell{},
		Refusals: map[string]refusal{}, Troubles: map[string]map[string]trouble{},
	}
	r.Clients = append(r.Clients, made)
	r.sort()
	return made
}

// skip notes a client that could not be had.
func (r *results) skip(name, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped = append(r.skipped, name+": "+why)
}

// sort puts clients into the order of the list.
func (r *results) sort() {
	place := map[string]int{}
	for i, c := range list() {
		place[c.name] = i
	}
	slices.SortFunc(r.Clients, func(a, b *result) int { return place[a.Client] - place[b.Client] })
}

// find returns the entry of a client, an empty one where there is none.
func (r *results) find(name string) *result {
	for _, c := range r.Clients {
		if c.Client == name {
			return c
		}
	}
	return &result{}
}

func (r *result) note(p pair, op string, c cell, opened int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Cells[p.String()] == nil {
		r.Cells[p.String()] = map[string]cell{}
	}
	r.Cells[p.String()][op] = c
	if p.String() == "PLAINTEXT/IPv4" && opened >= 0 && c.Unsupported == "" {
		r.Opens[op] = opened
	}
}

// refusal notes what a client said; told matches words that say what was refused, nil where none can.
func (r *result) refusal(what string, l *line, told *regexp.Regexp, times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := refusal{Said: steady(l.said()), Class: l.Error, Retriable: l.Retriable, MS: l.took(), Times: max(times, 0)}
	if l.Error == "" {
		seen.Said = "nothing"
		if l.Unsupported != "" {
			seen.Said = "–"
		}
	}
	seen.Told = told == nil || told.MatchString(l.said())
	r.Refusals[what] = seen
}

func (r *result) trouble(p pair, name string, seen trouble) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Troubles[p.String()] == nil {
		r.Troubles[p.String()] = map[string]trouble{}
	}
	for i, s := range seen.Said {
		seen.Said[i] = steady(s)
	}
	slices.Sort(seen.Said)
	seen.Said = slices.Compact(seen.Said)
	r.Troubles[p.String()][name] = seen
}

func (r *result) software(says string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if says != "" {
		r.Software = says
	}
}

func (r *result) atOnce(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.AtOnce = max(r.AtOnce, n)
}

func (r *result) idempotent(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Idempotent = is
}

// steady takes out of a text what differs from run to run: ports, process and connection ids, folders, times.
func steady(text string) string {
	for _, r := range []struct{ of, by string }{
		{`(127\.0\.0\.1|\[::1\]|::1|localhost)([:/ ]+)\d+`, "$1${2}PORT"},
		{`/tmp/\S*/`, "/…/"},
		{`0x[0-9a-f]+`, "0x…"},
		{`\b\d{1,6}(\.\d+)?(ns|µs|us|ms|s)\b`, "N$2"},
		{`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*`, "TIME"},
		{`\b\d{9,}\b`, "N"},
		{`('127\.0\.0\.1', )\d+`, "${1}PORT"},
	} {
		text = regexp.MustCompile(r.of).ReplaceAllString(text, r.by)
	}
	if len(text) > 400 {
		text = text[:strings.LastIndexAny(text[:400], " ")+1] + "…"
	}
	return text
}

// compareCells fails t where a pair went otherwise than the page says. A client of another version is compared with the page, too:
// the page then wants to be made anew.
func (r *result) compareCells(t *testing.T, known *result, tried []pair) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if known.Version != "" && r.Version != known.Version {
		t.Logf("%s is %s here, the page is of %s", r.Client, r.Version, known.Version)
	}
	for _, p := range tried {
		for _, op := range operations() {
			got, want := r.Cells[p.String()][op], known.Cells[p.String()][op]
			if got.Works != want.Works || got.Unsupported != want.Unsupported {
				t.Errorf("%s %s over %v = %+v, want what the page says, %+v", r.Client, op, p, got, want)
			}
		}
	}
	for what, want := range known.Refusals {
		if got, ok := r.Refusals[what]; ok && want.Told && !got.Told {
			t.Errorf("%s, refused a %s, said %q, and the page has %q", r.Client, what, got.Said, want.Said)
		}
	}
}

// compareTroubles fails t where a client fared otherwise than the page says in these troubles: those of the part that calls it,
// as the other parts of a client run at the same time.
func (r *result) compareTroubles(t *testing.T, known *result, p pair, names ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		got, tried := r.Troubles[p.String()][name]
		want, ok := known.Troubles[p.String()][name]
		switch {
		case !tried: // an earlier one was not survived, and says so
		case !ok:
			t.Errorf("%s over %v: the page says nothing of %s", r.Client, p, name)
		case got.Works != want.Works || !*kafka && name == "reauth" && (got.Times > 0) != (want.Times > 0):
			t.Errorf("%s over %v: %s = %+v, want what the page says, %+v", r.Client, p, name, got, want)
		}
	}
}

// compareSoftware fails t where a client says that it is something else than the page has.
func (r *result) compareSoftware(t *testing.T, known *result) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !*kafka && r.Version == known.Version && r.Software != known.Software {
		t.Errorf("%s says that it is %q, the page has %q", r.Client, r.Software, known.Software)
	}
}

// write writes what the run saw, as JSON.
func (r *results) write(t *testing.T, path string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(b, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tell writes who was skipped, for scripts/skipped.sh.
func (r *results) tell(t *testing.T, path string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.skipped)
	var text strings.Builder
	for _, s := range r.skipped {
		text.WriteString(s + "\n")
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// update writes the committed results and the page. Clients that could not be had keep what is known of them, and so do pairs
// that were not tried.
func (r *results) update(t *testing.T) {
	t.Helper()
	known := readResults(t)
	r.kafka = known.kafka
	for _, c := range list() {
		got, old := r.find(c.name), known.find(c.name)
		switch {
		case got.Client == "" && old.Client == "":
			t.Logf("%s: nothing is known of it yet, and it was not run", c.name)
		case got.Client == "":
			t.Logf("%s: not run, the page keeps what is known of it", c.name)
			r.Clients = append(r.Clients, old)
		case got.Version == old.Version:
			got.complete(old)
		}
	}
	r.sort()
	r.write(t, committed)
	r.writePage(t)
}

func (r *results) writePage(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(tree(), "docs", "clients.md"), []byte(r.page()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// complete adds what is known from before and was not tried now.
func (r *result) complete(old *result) {
	if len(r.Cells) == 0 {
		r.Idempotent = old.Idempotent
	}
	if r.AtOnce == 0 {
		r.AtOnce = old.AtOnce
	}
	if r.Software == "" {
		r.Software = old.Software
	}
	for p, cells := range old.Cells {
		if r.Cells[p] != nil {
			fill(r.Cells[p], cells)
		}
	}
	for p, troubles := range old.Troubles {
		if r.Troubles[p] != nil {
			fill(r.Troubles[p], troubles)
		}
	}
	fill(r.Cells, old.Cells)
	fill(r.Troubles, old.Troubles)
	fill(r.Refusals, old.Refusals)
	fill(r.Opens, old.Opens)
}

// fill adds what is missing.
func fill[V any](to, from map[string]V) {
	for k, v := range from {
		if _, ok := to[k]; !ok {
			to[k] = v
		}
	}
}

// committed is the file of the results that the page is made of.
const committed = "testdata/results.json"

func readResults(t *testing.T) *results {
	t.Helper()
	r := &results{kafka: readCellsOfKafka(t)}
	b, err := os.ReadFile(committed)
	if errors.Is(err, fs.ErrNotExist) {
		return r
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, r); err != nil {
		t.Fatalf("read %s: %v", committed, err)
	}
	return r
}

// appendFile adds text to a file.
func appendFile(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
