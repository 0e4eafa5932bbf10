package api

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/engine"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

func allRows() []row { return table(Options{Keys: protocol.DefaultKeys(), OwnAPIs: true}) }

// contract is what a handler file says of its API.
type contract struct {
	versions string
	headings []string
}

// contracts reads the NN_name.go files of this package, by key.
func contracts(t *testing.T) map[int16]contract {
	t.Helper()
	files, err := filepath.Glob("[0-9]*_*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int16]contract{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		number, _, _ := strings.Cut(file, "_")
		key, err := strconv.ParseInt(number, 10, 16)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.Contains(f.Doc.Text(), "\nVersions: ") {
				continue
			}
			if _, twice := found[int16(key)]; twice {
				t.Errorf("%s has two contracts", file)
			}
			c := contract{}
			for line := range strings.SplitSeq(f.Doc.Text(), "\n") {
				if heading, _, ok := strings.Cut(line, ": "); ok && regexp.MustCompile(`^[A-Z]`).MatchString(line) {
					c.headings = append(c.headings, heading)
				}
				if v, ok := strings.CutPrefix(line, "Versions: "); ok {
					c.versions = strings.TrimSuffix(v, ".")
				}
			}
			found[int16(key)] = c
		}
		if _, ok := found[int16(key)]; !ok {
			t.Errorf("%s has no contract: a comment with Versions, Needs and Differs from Kafka", file)
		}
	}
	return found
}

func TestEveryRowHasItsFileAndEveryFileItsRow(t *testing.T) {
	t.Parallel()
	files := contracts(t)
	for _, r := range allRows() {
		c, ok := files[r.key]
		if !ok {
			t.Errorf("%s has no file %02d_name.go", r.name, r.key)
			continue
		}
		delete(files, r.key)
		want := fmt.Sprintf("%d-%d", r.min, r.max)
		if r.min == r.max {
			want = strconv.Itoa(int(r.min))
		}
		if c.versions != want {
			t.Errorf("the file of %s says versions %q, its row %q", r.name, c.versions, want)
		}
		for _, heading := range []string{"Versions", "Needs", "Differs from Kafka"} {
			if !slices.Contains(c.headings, heading) {
				t.Errorf("the contract of %s lacks %q", r.name, heading)
			}
		}
	}
	for key := range files {
		t.Errorf("the file of key %d has no row", key)
	}
}

func TestRowsAreInOrderOfTheirKeys(t *testing.T) {
	t.Parallel()
	rows := allRows()
	if !slices.IsSortedFunc(rows, func(a, b row) int { return int(a.key) - int(b.key) }) {
		t.Error("rows are not sorted")
	}
	for i := 1; i < len(rows); i++ {
		if rows[i].key == rows[i-1].key {
			t.Errorf("key %d has two rows", rows[i].key)
		}
	}
}

func TestNoRowGoesBeyondWhatItsMessageCanDecode(t *testing.T) {
	t.Parallel()
	for _, r := range allRows() {
		if req := r.decode(); r.max > req.MaxVersion() || r.min > r.max || r.min < 0 {
			t.Errorf("%s: versions %d-%d, want within 0-%d", r.name, r.min, r.max, req.MaxVersion())
		}
	}
}

// A topic that a request names and its row does not declare could neither be refused nor hidden.
func TestEveryFieldThatNamesATopicIsDeclared(t *testing.T) {
	t.Parallel()
	for _, r := range allRows() {
		if r.key == kmsg.DescribeQuorum.Int16() {
			continue // asks for the metadata log alone, which is no topic
		}
		got, want := slices.Sorted(slices.Values(r.topics)), topicPaths(reflect.TypeOf(r.decode()).Elem(), "")
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s declares topics %v, its request has %v", r.name, got, want)
		}
	}
}

// topicPaths finds the fields of a request that name a topic. A cursor's is where a listing goes on.
func topicPaths(t reflect.Type, prefix string) []string {
	var paths []string
	for f := range t.Fields() {
		path := prefix + f.Name
		switch {
		case slices.Contains([]string{"Topic", "TopicID", "TopicNames", "SubscribedTopicNames"}, f.Name) && f.Type.Kind() != reflect.Struct:
			paths = append(paths, path)
		case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			paths = append(paths, topicPaths(f.Type.Elem(), path+".")...)
		}
	}
	return paths
}

func TestWhatTheDataPlaneLacksIsNotServed(t *testing.T) {
	t.Parallel()
	served := serveable(allRows(), map[int16]engine.VersionRange{
		kmsg.Produce.Int16(): {Min: 0, Max: 9},
		kmsg.Fetch.Int16():   {Min: 0, Max: 3},
	})
	if r := served[kmsg.Produce.Int16()]; r == nil || r.min != 3 || r.max != 9 {
		t.Errorf("Produce = %+v, want versions 3-9", r)
	}
	for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.JoinGroup} {
		if served[key.Int16()] != nil {
			t.Errorf("%s is served without a version that both have", key.Name())
		}
	}
	if served[keyAPIVersions] == nil {
		t.Error("ApiVersions is not served")
	}
}

func TestSoftwareNamesAreThoseOfKIP511(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"": false, "a": true, "A1": true, "apache-kafka-java": true, "1.2.3": true, "-a": false, "a-": false, ".": false, "a b": false,
		"a_b": false, "é": false, "a..b--c": true, "a\n": false,
	} {
		if got := softwareName(name); got != want {
			t.Errorf("softwareName(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestTopicNamesAreKafkas(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"": false, ".": false, "..": false, "...": true, "a.b_c-D9": true, "a b": false, "ä": false,
		strings.Repeat("x", 249): true, strings.Repeat("x", 250): false,
	} {
		if got := engine.CheckTopicName(name) == ""; got != want {
			t.Errorf("a topic may be called %.20q: %v, want %v", name, got, want)
		}
	}
}

func TestAnErrorResponseSpeaksOfEachPartOfItsRequest(t *testing.T) {
	t.Parallel()
	produce := kmsg.NewPtrProduceRequest()
	produce.Version = 9
	produce.Topics = []kmsg.ProduceRequestTopic{{Topic: "a", Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 3}, {Partition: 4}}}}
	answer := errorResponse(produce, 34, "no").(*kmsg.ProduceResponse)
	if len(answer.Topics) != 1 || answer.Topics[0].Topic != "a" || len(answer.Topics[0].Partitions) != 2 {
		t.Fatalf("errorResponse(Produce) = %+v, want its topic and two partitions", answer)
	}
	if p := answer.Topics[0].Partitions[1]; p.Partition != 4 || p.ErrorCode != 34 || p.ErrorMessage == nil || *p.ErrorMessage != "no" {
		t.Errorf("partition = %+v, want 4 with error 34", p)
	}

	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Groups = []string{"g", "h"}
	if answer := errorResponse(groups, 34, "").(*kmsg.DescribeGroupsResponse); len(answer.Groups) != 2 || answer.Groups[1].Group != "h" || answer.Groups[1].ErrorCode != 34 {
		t.Errorf("errorResponse(DescribeGroups) = %+v, want both groups with error 34", answer)
	}

	if answer := errorResponse(kmsg.NewPtrListGroupsRequest(), 34, "").(*kmsg.ListGroupsResponse); answer.ErrorCode != 34 {
		t.Errorf("errorResponse(ListGroups) = %+v, want error 34", answer)
	}

	acls := kmsg.NewPtrCreateACLsRequest()
	acls.Creations = make([]kmsg.CreateACLsRequestCreation, 3)
	if answer := errorResponse(acls, 34, "").(*kmsg.CreateACLsResponse); len(answer.Results) != 3 || answer.Results[2].ErrorCode != 34 {
		t.Errorf("errorResponse(CreateACLs) = %+v, want three results with error 34", answer)
	}
}

// Whatever is refused in whatever API: the answer can be written and read.
func TestEveryAPIHasAnErrorResponse(t *testing.T) {
	t.Parallel()
	for _, r := range allRows() {
		for version := r.min; version <= r.max; version++ {
			req := r.decode()
			req.SetVersion(version)
			resp := errorResponse(req, 34, "no")
			read := req.ResponseKind()
			read.SetVersion(version)
			if err := read.ReadFrom(resp.AppendTo(nil)); err != nil {
				t.Errorf("%s v%d: %v", r.name, version, err)
			}
		}
	}
}
