package reproduce

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

func rule(principal, host, name string) acl.Binding {
	return acl.Binding{
		Pattern:   acl.Pattern{Type: acl.Topic, Name: name, Kind: acl.Literal},
		Principal: principal, Host: host, Operation: acl.Read, Permission: acl.Allow,
	}
}

// reread makes the lab file of rules and reads it again.
func reread(rules []acl.Binding, properties map[string]string) (*Book, error) {
	setup, err := Plan(Source{Name: "x", Rules: rules, Properties: properties})
	if err != nil {
		return nil, err
	}
	lab, err := topology.Parse("lab.yaml", setup.YAML())
	if err != nil {
		return nil, err
	}
	return Open(lab)
}

func TestWhateverStandsInARuleComesBackFromTheLabFile(t *testing.T) {
	texts := []string{
		"a: b", `"x"`, "'", "#c", "{x}", "[y]", "- z", "~", "null", "true", "*a", "&a", "!a", "%", "@", "`", "a\tb", "line\nbreak", "\x1b[31m", "\u202eolleh",
		"é", "日本", "😀", " lead", "trail ", `back\slash`, "\u0085", "\u2028", "\x7f", "0x10", "1e3", "012", "a,b", "a#b", "a #b", "a:", "<<", "=", "|", ">", "?", "\ufeff",
	}
	var rules []acl.Binding
	for _, text := range texts {
		rules = append(rules, rule("User:"+text, "*", "orders"), rule("User:a", text, "orders"), rule("User:a", "*", text))
	}
	book, err := reread(rules, map[string]string{"super.users": "User:" + texts[0], "listeners": "SASL_SSL://:9092,SSL://:9093"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rules {
		if book.Rules[i] != rules[i] {
			t.Errorf("rule %d = %q, want %q", i+1, book.Rules[i], rules[i])
		}
	}
}

func TestAllThatIsWrongWithASourceIsSaidAtOnce(t *testing.T) {
	_, err := Plan(Source{Name: "x", Properties: map[string]string{
		"listeners": "nonsense,CLIENTS://:9092,SSL://:70000,PLAINTEXT://:1,PLAINTEXT://:2", "super.users": "alice", "ssl.principal.mapping.rules": `RULE:^(?=x)$/$1/`,
	}})
	if err == nil {
		t.Fatal("Plan = nil, want an error")
	}
	for _, want := range []string{
		"there are no rules", `"nonsense" is no listener`, "CLIENTS has no security protocol", "70000 is not a port", "PLAINTEXT is here twice",
		"super.users: expected a string in format principalType:principalName but got alice", "ssl.principal.mapping.rules: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Plan = %v, want also %q", err, want)
		}
	}
}

func TestWhoCannotLogInIsSaidAndLeftOut(t *testing.T) {
	setup := planOf(t, Source{Name: "x", Rules: []acl.Binding{
		rule("User:ANONYMOUS", "*", "a"), rule("Group:staff", "*", "a"), rule("User:CN=a, OU=b", "*", "a"), rule("User:has space", "*", "a"), rule("User:alice", "*", "a"),
		rule("alice", "*", "a"), rule("User:*", "*", "a"),
	}, Properties: map[string]string{"listeners": "SASL_SSL://:9092,SSL://:9093", "ssl.principal.mapping.rules": "RULE:^CN=(.*?),OU=x$/$1/,DEFAULT"}})
	notes := strings.Join(setup.Notes, "\n")
	for _, want := range []string{
		"User:ANONYMOUS cannot be asked as: no listener lets anonymous clients in",
		"Group:staff cannot be asked as: only principals of type User can log in",
		"User:CN=a, OU=b cannot be asked as: no certificate has this name: Kafka prints such a subject as CN=a,OU=b",
		"alice cannot be asked as",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes = %s\nwant also %s", notes, want)
		}
	}
	asked := map[string]bool{}
	for _, r := range setup.Expect {
		asked[r.Principal] = true
	}
	if !asked["User:alice"] || !asked["User:has space"] || !asked[stranger] || len(asked) != 3 {
		t.Errorf("asked as %v, want alice, the one with a space by certificate, and a stranger", asked)
	}
}

func TestADeadHostIsAskedFromTheAddressThatWasMeant(t *testing.T) {
	setup := planOf(t, Source{Name: "x", Rules: []acl.Binding{rule("User:alice", "2001:db8::1", "a"), rule("User:alice", "2001:db8::2/128", "a")}, Properties: map[string]string{"listeners": "SASL_SSL://:9092"}})
	got := map[string]bool{}
	for _, r := range setup.Expect {
		if r.Principal == "User:alice" && r.Name == "a" {
			i := slices.IndexFunc(r.Cells, func(c Expected) bool { return c.Operation == acl.Read })
			got[r.From.String()] = r.Cells[i].Allow
		}
	}
	if dead, asked := got["2001:db8::1"]; !asked || dead {
		t.Errorf("from 2001:db8::1: asked %v, allowed %v, want asked and denied: %v", asked, dead, got)
	}
	if !got["2001:db8::2"] {
		t.Errorf("from 2001:db8::2: want allowed: %v", got)
	}
}

func TestManyRulesMakeAFileThatCanBeUsedOrAClearError(t *testing.T) {
	var rules []acl.Binding
	for i := range 200 {
		rules = append(rules, rule(fmt.Sprintf("User:u%d", i%20), fmt.Sprintf("10.%d.0.0/16", i), fmt.Sprintf("t%d", i%40)))
	}
	if _, err := reread(rules, map[string]string{"listeners": "SASL_SSL://:9092"}); err != nil {
		t.Error(err)
	}
	for i := range 5000 {
		rules = append(rules, rule(fmt.Sprintf("User:v%d", i), "*", fmt.Sprintf("t%d", i)))
	}
	if _, err := reread(rules, map[string]string{"listeners": "SASL_SSL://:9092"}); err == nil || !strings.Contains(err.Error(), "take a part of the rules") {
		t.Errorf("5200 rules = %v, want an error that says what to do", err)
	}
}

// Any rule and any properties give a lab file that reads back as the same rules with the expectations that they come to, or an
// error; never a panic.
func FuzzPlan(f *testing.F) {
	f.Add("User:alice", "10.0.0.0/8", "orders", "SASL_SSL://:9092", "User:admin", "DEFAULT", int8(3), int8(2))
	f.Add("User:CN=a,OU=b", "::1/128", "*", "SSL://:9092,PLAINTEXT://:0", "", "RULE:^CN=(.*?),.*$/$1/L,DEFAULT", int8(2), int8(3))
	f.Add("Group:x", "0.0.0.0/0", "", "A://[::]:1", ";", "RULE:^(a|b)+$/$1$2/", int8(9), int8(4))
	f.Fuzz(func(t *testing.T, principal, host, name, listeners, super, mapping string, op, kind int8) {
		r := acl.Binding{
			Pattern:   acl.Pattern{Type: acl.ResourceType(kind), Name: name, Kind: acl.Literal},
			Principal: principal, Host: host, Operation: acl.Operation(op), Permission: acl.Allow,
		}
		book, err := reread([]acl.Binding{r}, map[string]string{"listeners": listeners, "super.users": super, "ssl.principal.mapping.rules": mapping})
		if err != nil {
			return
		}
		if host != "" && book.Rules[0] != r {
			t.Fatalf("rule = %q, want %q", book.Rules[0], r)
		}
		for i := range book.Rows {
			row := &book.Rows[i]
			for _, c := range row.Cells {
				if allowed, _ := book.explain(row.Principal, row.From, row.Type, row.Name, c.Operation); allowed != c.Allow {
					t.Fatalf("%s %s on %s from %s: expected %v, the rules say %v", row.Principal, c.Operation, row.Name, row.From, c.Allow, allowed)
				}
			}
		}
	})
}

// To find out row by row what so many come to would take hours.
func TestRulesThatALabFileHasNoRoomForAreRefusedBeforeTheyAreWorkedOut(t *testing.T) {
	const many = 200_000
	for what, one := range map[string]func(i int) acl.Binding{
		"principals": func(i int) acl.Binding { return rule(fmt.Sprint("User:u", i), "*", "orders") },
		"resources":  func(i int) acl.Binding { return rule("User:a", "*", fmt.Sprint("t", i)) },
		"hosts": func(i int) acl.Binding {
			return rule("User:a", fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "orders")
		},
		"all of it": func(i int) acl.Binding {
			return rule(fmt.Sprint("User:u", i), fmt.Sprintf("10.%d.%d.0/24", i>>8&255, i&255), fmt.Sprint("t", i))
		},
	} {
		rules := make([]acl.Binding, many)
		for i := range rules {
			rules[i] = one(i)
		}
		if _, err := Plan(Source{Name: "x", Rules: rules, Properties: map[string]string{"listeners": "SASL_SSL://:9092"}}); err == nil || !strings.Contains(err.Error(), "more rows of expectations") {
			t.Errorf("very many %s: %v, want them refused", what, err)
		}
	}
}
