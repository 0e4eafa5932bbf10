package fidelity

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// hostsFile has a line for each host of the table of KIP-1276 and of its neighbours: the host in JSON, and what Kafka once said.
const hostsFile = "../../broker/testdata/acl-hosts.txt"

// generatedHosts is how many hosts are made up.
const generatedHosts = 2000

// foreignDigit tells whether a host has a digit that is not ASCII.
func foreignDigit(host string) bool {
	return strings.ContainsFunc(host, func(r rune) bool { return r >= '٠' && r <= '٩' })
}

// tableHosts are the hosts of the table.
func tableHosts(t *testing.T) []string {
	t.Helper()
	f, err := os.Open(hostsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var hosts []string
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		quoted, _, ok := strings.Cut(scanner.Text(), " => ")
		if !ok {
			continue
		}
		var host string
		if err := json.Unmarshal([]byte(quoted), &host); err != nil {
			t.Fatal(quoted, err)
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// madeUpHosts are hosts that are valid, invalid, and nearly the one or the other. The same seed makes the same ones.
func madeUpHosts(count int) []string {
	r := rand.New(rand.NewPCG(1276, 44))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	octet := func() string {
		switch r.IntN(12) {
		case 0:
			return pick("256", "300", "999", "1000", "-1", "+1", "", "0x1", "a", "*", "1 ")
		case 1:
			return fmt.Sprintf("%03d", r.IntN(256))
		case 2:
			return pick("0", "255", "00", "000", "127", "128")
		default:
			return strconv.Itoa(r.IntN(256))
		}
	}
	dotted := func() string {
		groups := make([]string, 4)
		if r.IntN(15) == 0 {
			groups = make([]string, 1+r.IntN(6))
		}
		for i := range groups {
			groups[i] = octet()
		}
		return strings.Join(groups, pick(".", ".", ".", ".", ".", ".", ".", ".", ".", ".", "..", ",", "。", " ."))
	}
	group := func() string {
		switch r.IntN(14) {
		case 0:
			return pick("fffff", "10000", "g", "", "-1", "+1", "0x1", "00000", "0000ffff", "12345", " 1")
		case 1:
			return strings.ToUpper(fmt.Sprintf("%x", r.IntN(65536)))
		case 2:
			return fmt.Sprintf("%04x", r.IntN(65536))
		case 3:
			return pick("0", "ffff", "fe80", "2001", "db8")
		default:
			return fmt.Sprintf("%x", r.IntN(65536))
		}
	}
	sixes := func() string {
		n := 8
		if r.IntN(3) > 0 {
			n = 1 + r.IntN(9)
		}
		groups := make([]string, n)
		for i := range groups {
			groups[i] = group()
		}
		text := strings.Join(groups, ":")
		if n != 8 || r.IntN(20) == 0 {
			at := r.IntN(n + 1)
			text = strings.Join(groups[:at], ":") + "::" + strings.Join(groups[at:], ":")
		}
		switch r.IntN(12) {
		case 0:
			text = strings.TrimSuffix(text, ":") + ":" + dotted()
		case 1:
			text = pick("::ffff:", "::FFFF:", "0:0:0:0:0:ffff:", "::ffff:0:", "::", "64:ff9b::", "::fffe:") + dotted()
		case 2:
			text = pick("::ffff:", "0::ffff:", "0:0:0:0:0:ffff:") + group() + ":" + group()
		}
		switch r.IntN(12) {
		case 0:
			text += pick("%0", "%1", "%9", "%99999", "%2147483647", "%2147483648", "%-1", "%", "%1%2", "%+1", "%nosuch0", "%01", "%1 ", "%00000000000000001")
		case 1:
			text = pick("[", "[[", "") + text + pick("]", "]]", "")
		}
		return text
	}
	length := func(most int) string {
		switch r.IntN(10) {
		case 0:
			return pick("33", "129", "-1", "+8", "-0", "", "00", "008", "08", "1e1", "0x8", "8a", "abc", "2147483647", "2147483648", "-2147483648",
				"99999999999999999999", " 8", "8 ", "8/8", "/8", "255.0.0.0", "ffff::", "*", "8.0", "8\t", "8\n", "1_0")
		case 1:
			return fmt.Sprintf("%0*d", 1+r.IntN(6), r.IntN(most+4))
		default:
			return strconv.Itoa(r.IntN(most + 1))
		}
	}
	noise := func(host string) string {
		if host == "" || r.IntN(9) > 0 {
			return host
		}
		at := r.IntN(len(host) + 1)
		for at < len(host) && host[at]&0xc0 == 0x80 {
			at++
		}
		extra := pick(" ", "/", ":", ".", "%", "[", "]", "0", "f", "x", "\t", "\n", "\u00a0", "-", "+", "*", "é", "\x00")
		switch r.IntN(3) {
		case 0:
			return host[:at] + extra + host[at:]
		case 1:
			return extra + host
		default:
			return host + extra
		}
	}
	seen := map[string]bool{}
	var hosts []string
	for len(hosts) < count {
		var host string
		switch r.IntN(20) {
		case 0:
			host = dotted()
		case 1:
			host = sixes()
		case 2:
			host = pick("*", "**", "localhost", "example.com", "a.b", "User:a", "10.0.0.*", "10.0.0.1-9", "host-"+strconv.Itoa(r.IntN(1000)),
				strings.Repeat("x", 1+r.IntN(300)), strings.Repeat("é", 1+r.IntN(40)))
		case 3:
			host = pick("a", "bad", "10", "10.0", "*", "", "1a", "0x0a.0.0.1") + "/" + length(32)
		case 4, 5, 6, 7, 8, 9, 10, 11:
			host = dotted() + "/" + length(32)
		default:
			host = sixes() + "/" + length(128)
		}
		host = noise(host)
		if !seen[host] && !foreignDigit(host) {
			seen[host] = true
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// judged is what became of a rule with a host: how its creation was answered, how often it is listed (all hosts, and its own
// as a filter), and how often it is removed by its host.
type judged struct {
	Code    int16
	Text    string
	Listed  int
	Found   string
	Removed string
}

// judgeHosts creates a rule with each host, lists them, finds some by their host and removes all by theirs.
func judgeHosts(t *testing.T, p *peer, hosts []string, principal string) map[string]judged {
	t.Helper()
	byHost := map[string]judged{}
	version := int16(0)
	for chunk := range slices.Chunk(hosts, (len(hosts)+2)/3) {
		version++
		var rules []rule
		for _, host := range chunk {
			r := parseRule(t, "allow READ Topic hosts", principal)
			r.Host = host
			rules = append(rules, r)
		}
		for i, result := range p.createRules(t, version, rules...) {
			byHost[chunk[i]] = judged{Code: result.ErrorCode, Text: text(result.ErrorMessage)}
		}
	}
	p.settle(t)
	req := kmsg.NewPtrDescribeACLsRequest()
	req.Version, req.ResourceType, req.ResourcePatternType, req.Operation, req.PermissionType = 3, 1, 1, 1, 1
	req.Principal = &principal
	for _, resource := range p.root(t, req).(*kmsg.DescribeACLsResponse).Resources {
		for _, a := range resource.ACLs {
			j := byHost[a.Host]
			j.Listed++
			byHost[a.Host] = j
		}
	}
	for i, host := range hosts {
		if i%8 > 0 {
			continue
		}
		j := byHost[host]
		j.Found = strings.Join(p.describeRules(t, func(req *kmsg.DescribeACLsRequest) {
			req.Version, req.Host, req.Principal = int16(1+i%3), &host, &principal
		}), "; ")
		byHost[host] = j
	}
	for chunk := range slices.Chunk(hosts, 700) {
		remove := kmsg.NewPtrDeleteACLsRequest()
		remove.Version = 3
		for _, host := range chunk {
			filter := everyRule()
			filter.Host, filter.Principal = &host, &principal
			remove.Filters = append(remove.Filters, filter)
		}
		for i, result := range p.root(t, remove).(*kmsg.DeleteACLsResponse).Results {
			j := byHost[chunk[i]]
			j.Removed = fmt.Sprintf("%d %s", result.ErrorCode, text(result.ErrorMessage))
			for _, match := range result.MatchingACLs {
				j.Removed += fmt.Sprintf(" %d %s %s %s", match.ErrorCode, text(match.ErrorMessage), match.Principal, match.Host)
			}
			byHost[chunk[i]] = j
		}
	}
	return byHost
}

// Below 4.4-IV1 a host with a slash is refused, whatever it is; a cluster that is raised takes ranges at once.
func TestRangesWaitForTheirLevelAlike(t *testing.T) { //nolint:tparallel // its steps follow each other
	t.Parallel()
	b := pair(t, "metadata.version=4.3-IV0")
	hosts := append(tableHosts(t), madeUpHosts(100)...)
	hosts = slices.DeleteFunc(hosts, foreignDigit)
	for _, level := range []int16{30, 31, 32} {
		b.compare(t, fmt.Sprintf("acl/hosts/level-%d", level), func(t *testing.T, p *peer) any {
			req := kmsg.NewPtrUpdateFeaturesRequest()
			update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
			update.Feature, update.MaxVersionLevel, update.UpgradeType = "metadata.version", level, 1
			req.Version, req.TimeoutMillis, req.FeatureUpdates = 1, 60_000, append(req.FeatureUpdates, update)
			if resp := p.root(t, req).(*kmsg.UpdateFeaturesResponse); resp.ErrorCode != 0 {
				t.Fatalf("%s: to level %d: error %d %s", p.name, level, resp.ErrorCode, text(resp.ErrorMessage))
			}
			return judgeHosts(t, p, hosts, fmt.Sprintf("User:level-%d", level))
		})
	}
}

func TestHostsOfRulesAreJudgedAlike(t *testing.T) {
	b := authority(t)
	table := tableHosts(t)
	foreign := slices.DeleteFunc(slices.Clone(table), func(host string) bool { return !foreignDigit(host) })
	table = slices.DeleteFunc(table, foreignDigit)
	b.compare(t, "acl/hosts/table", func(t *testing.T, p *peer) any { return judgeHosts(t, p, table, "User:table") })
	b.compare(t, "acl/hosts/other-digits", func(t *testing.T, p *peer) any { return judgeHosts(t, p, foreign, "User:digits") })
	b.compare(t, "acl/hosts/generated", func(t *testing.T, p *peer) any {
		return judgeHosts(t, p, madeUpHosts(generatedHosts), "User:generated")
	})
}
