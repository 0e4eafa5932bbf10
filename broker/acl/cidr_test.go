package acl

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// What Kafka 4.4.0 answered for each of these hosts: the range they stand for, or its reason to refuse them.
func TestRangesAreReadAsKafkaReadsThem(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"192.168.0.0/24":     "192.168.0.0/24",
		"0.0.0.0/0":          "0.0.0.0/0",
		"192.168.1.1/32":     "192.168.1.1/32",
		"10.0.0.5/24":        "10.0.0.0/24",
		"10.0.0.0/00":        "0.0.0.0/0",
		"10.0.0.0/08":        "10.0.0.0/8",
		"010.000.000.001/08": "10.0.0.0/8",
		"010.0.0.0/8":        "10.0.0.0/8",

		"0010.0.0.0/8":         "Could not parse [0010.0.0.0/8]",
		"10.0.0.0/032":         "Could not parse [10.0.0.0/032]",
		"10.0.0.0/33":          "Value [33] not in range [0,32]",
		"10.0.0.0/99":          "Value [99] not in range [0,32]",
		"10.0.0.0/100":         "Could not parse [10.0.0.0/100]",
		"10.0.0.0/-1":          "Could not parse [10.0.0.0/-1]",
		"10.0.0.0/+8":          "Could not parse [10.0.0.0/+8]",
		"10.0.0.0/":            "Could not parse [10.0.0.0/]",
		"/24":                  "Could not parse [/24]",
		"/":                    "Could not parse [/]",
		"//":                   "Could not parse [//]",
		"10.0.0.0//8":          "Could not parse [10.0.0.0//8]",
		"10.0.0.0/8/8":         "Could not parse [10.0.0.0/8/8]",
		" 10.0.0.0/8":          "Could not parse [ 10.0.0.0/8]",
		"10.0.0.0/8 ":          "Could not parse [10.0.0.0/8 ]",
		"10.0.0.0/ 8":          "Could not parse [10.0.0.0/ 8]",
		"10.0.0.0 /8":          "Could not parse [10.0.0.0 /8]",
		"10.0.0.0/8\n":         "Could not parse [10.0.0.0/8\n]",
		"10.0.0/8":             "Could not parse [10.0.0/8]",
		"10/8":                 "Could not parse [10/8]",
		"10.0.0.0.0/8":         "Could not parse [10.0.0.0.0/8]",
		"256.0.0.0/8":          "Value [256] not in range [0,255]",
		"256.0.0.0/33":         "Value [256] not in range [0,255]",
		"1.999.300.0/33":       "Value [999] not in range [0,255]",
		"10.0.0.0/255.0.0.0":   "Could not parse [10.0.0.0/255.0.0.0]",
		"10.0.0.0/abc":         "Could not parse [10.0.0.0/abc]",
		"10.0.0.0/8a":          "Could not parse [10.0.0.0/8a]",
		"*/8":                  "Could not parse [*/8]",
		"a.b.c.d/8":            "Could not parse [a.b.c.d/8]",
		"example.com/24":       "Could not parse [example.com/24]",
		"bad/path":             "Could not parse [bad/path]",
		"badhost/":             "Could not parse [badhost/]",
		"0x0a.0.0.0/8":         "Could not parse [0x0a.0.0.0/8]",
		"\u0661\u0660.0.0.0/8": "Could not parse [\u0661\u0660.0.0.0/8]",
		"[10.0.0.0]/8":         "Could not parse [[10.0.0.0]/8]",

		"2001:db8::/32":             "2001:db8::/32",
		"::1/128":                   "::1/128",
		"::/0":                      "::/0",
		"2001:db8::5/64":            "2001:db8::/64",
		"2001:DB8::/32":             "2001:db8::/32",
		"2001:0db8:0000::/32":       "2001:db8::/32",
		"2001:00db8::/32":           "2001:db8::/32",
		"2001:000000db8::/32":       "2001:db8::/32",
		"1:2:3:4:5:6:7:8/64":        "1:2:3:4::/64",
		"1:2:3:4:5:6:7::/64":        "1:2:3:4::/64",
		"::192.168.1.0/24":          "::/24",
		"::192.168.1.0/120":         "::c0a8:100/120",
		"::01.2.3.4/128":            "::102:304/128",
		"1:2:3:4:5:6:1.2.3.4/64":    "1:2:3:4::/64",
		"64:ff9b::1.2.3.4/96":       "64:ff9b::/96",
		"::ffff:0:1.2.3.4/96":       "::ffff:0:0:0/96",
		"::fffe:1.2.3.4/96":         "::fffe:0:0/96",
		"2001:db8::/064":            "2001:db8::/64",
		"2001:db8::/00000064":       "2001:db8::/64",
		"2001:db8::/+64":            "2001:db8::/64",
		"2001:db8::/-0":             "::/0",
		"[2001:db8::]/32":           "2001:db8::/32",
		"[fe80::1%1]/64":            "fe80::/64",
		"2001:db8::%1/32":           "2001:db8::/32",
		"::1%0/64":                  "::/64",
		"fe80::1%99999/64":          "fe80::/64",
		"fe80::1%2147483647/64":     "fe80::/64",
		"::00000001.2.3.4/128":      "::102:304/128",
		"0000:0:0:0:0:0:0:0001/128": "::1/128",

		"fe80::1%nosuch/64":         "Could not parse [fe80::1%nosuch]",
		"fe80::1%-1/64":             "Could not parse [fe80::1%-1]",
		"fe80::1%2147483648/64":     "Could not parse [fe80::1%2147483648]",
		"::%/64":                    "Could not parse [::%]",
		"2001:db8::/129":            "Could not parse [2001:db8::/129] - prefix length must be between 0 and 128",
		"2001:db8::/-1":             "Could not parse [2001:db8::/-1] - prefix length must be between 0 and 128",
		"2001:db8::/":               "Could not parse [2001:db8::/] - invalid prefix length",
		"/::":                       "Could not parse [/::] - invalid prefix length",
		"::/":                       "Could not parse [::/] - invalid prefix length",
		"2001:db8::/ 64":            "Could not parse [2001:db8::/ 64] - invalid prefix length",
		"2001:db8::/64 ":            "Could not parse [2001:db8::/64 ] - invalid prefix length",
		"2001:db8::/32/4":           "Could not parse [2001:db8::/32/4] - invalid prefix length",
		"2001:db8::/abc":            "Could not parse [2001:db8::/abc] - invalid prefix length",
		"2001:db8::/0x10":           "Could not parse [2001:db8::/0x10] - invalid prefix length",
		"2001:db8::/--1":            "Could not parse [2001:db8::/--1] - invalid prefix length",
		"2001:db8::/+":              "Could not parse [2001:db8::/+] - invalid prefix length",
		"2001:db8::/9999999999":     "Could not parse [2001:db8::/9999999999] - invalid prefix length",
		" 2001:db8::/64":            "Could not parse [ 2001:db8::]",
		"::ffff:192.168.1.0/24":     "Could not parse [::ffff:192.168.1.0] - not an IPv6 address",
		"::ffff:192.168.1.0/120":    "Could not parse [::ffff:192.168.1.0] - not an IPv6 address",
		"::ffff:c0a8:100%1/120":     "Could not parse [::ffff:c0a8:100%1]",
		"::ffff:c0a8:100/120":       "Could not parse [::ffff:c0a8:100] - not an IPv6 address",
		"0:0:0:0:0:ffff:c0a8:1/120": "Could not parse [0:0:0:0:0:ffff:c0a8:1] - not an IPv6 address",
		"2001:db8:::/32":            "Could not parse [2001:db8:::]",
		"2001::db8::/32":            "Could not parse [2001::db8::]",
		"1:2:3:4:5:6:7/64":          "Could not parse [1:2:3:4:5:6:7]",
		"1:2:3:4:5:6:7:8:9/64":      "Could not parse [1:2:3:4:5:6:7:8:9]",
		"1:2:3:4:5:6:7:8::/64":      "Could not parse [1:2:3:4:5:6:7:8::]",
		"1:2:3:4::5:6:7:8/64":       "Could not parse [1:2:3:4::5:6:7:8]",
		"1:2:3:4:5:6::1.2.3.4/64":   "Could not parse [1:2:3:4:5:6::1.2.3.4]",
		"1:2:3:4:5:6:7:1.2.3.4/64":  "Could not parse [1:2:3:4:5:6:7:1.2.3.4]",
		"1.2.3.4::/64":              "Could not parse [1.2.3.4::]",
		"::1.2.3/64":                "Could not parse [::1.2.3]",
		"::1.2.3.256/64":            "Could not parse [::1.2.3.256]",
		"::10000/64":                "Could not parse [::10000]",
		"[2001:db8::/32":            "Could not parse [[2001:db8::]",
		"2001:db8::]/32":            "Could not parse [2001:db8::]]",
		"[::1]:80/64":               "Could not parse [[::1]:80]",
		"g::/32":                    "Could not parse [g::]",
		"not:valid::/32":            "Could not parse [not:valid::]",
		"host:9092/24":              "Could not parse [host:9092]",
		"10.0.0.0:80/24":            "Could not parse [10.0.0.0:80]",
		":/24":                      "Could not parse [:]",
		":1::/24":                   "Could not parse [:1::]",
		"1:/24":                     "Could not parse [1:]",
	} {
		if got := verdictOn(ParseCIDR(host)); got != want {
			t.Errorf("ParseCIDR(%q) = %s, want %s", host, got, want)
		}
		if got := verdictOn(slowCIDR(host)); got != want {
			t.Errorf("the slow reading of %q = %s, want %s", host, got, want)
		}
		refusal := Validate(topicRule("t", Literal, 1, host, Read, Allow), cidrLevel)
		switch _, err := netip.ParsePrefix(want); {
		case err == nil && refusal != nil:
			t.Errorf("Validate with host %q = %v, want nothing to refuse", host, *refusal)
		case err != nil && (refusal == nil || *refusal != Refusal{codeInvalidRequest, "Invalid CIDR notation '" + host + "': " + want}):
			t.Errorf("Validate with host %q = %v, want code 42 and %s", host, refusal, want)
		}
	}
}

func verdictOn(p netip.Prefix, err error) string {
	if err != nil {
		return err.Error()
	}
	return p.String()
}

// FuzzParseCIDR holds the parser to one that was written from the grammar alone: same range or same reason, and the range is
// masked, of the family that the colon tells, and contains what the host names.
func FuzzParseCIDR(f *testing.F) {
	for _, seed := range []string{
		"10.0.0.5/8", "010.256.0.0/33", "10.0.0.0/", "2001:db8::5/64", "[fe80::1%1]/+064", "::ffff:1.2.3.4/96", "1:2:3:4:5:6:7::/-0",
		"::1.2.3.4/128", "::%/64", "1:2:3:4:5:6:7:8:9/1/2", ":::/0", "1.2.3.4::/9999999999",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if !IsCIDR(host) {
			return
		}
		got, err := ParseCIDR(host)
		want, slowErr := slowCIDR(host)
		if verdictOn(got, err) != verdictOn(want, slowErr) {
			t.Fatalf("ParseCIDR(%q) = %s, want %s", host, verdictOn(got, err), verdictOn(want, slowErr))
		}
		if err != nil {
			return
		}
		if got != got.Masked() || got.Addr().Is4() == strings.Contains(host, ":") || !Matches(host, got.Addr()) {
			t.Fatalf("ParseCIDR(%q) = %v: not masked, of the wrong family, or does not match its own address", host, got)
		}
	})
}

// slowCIDR follows the grammar step by step: commons-net's two regular expressions, and an IPv6 address rewritten until a
// strict reader takes it.
func slowCIDR(host string) (netip.Prefix, error) {
	if !strings.Contains(host, ":") {
		m := regexp.MustCompile(`\A([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})\z`).FindStringSubmatch(host)
		if m == nil {
			return netip.Prefix{}, fmt.Errorf("Could not parse [%s]", host)
		}
		var n [5]int
		for i, digits := range m[1:] {
			n[i], _ = strconv.Atoi(digits) // the expression lets digits only pass
			if most := []int{255, 255, 255, 255, 32}[i]; n[i] > most {
				return netip.Prefix{}, fmt.Errorf("Value [%d] not in range [0,%d]", n[i], most)
			}
		}
		return netip.MustParseAddr(fmt.Sprintf("%d.%d.%d.%d", n[0], n[1], n[2], n[3])).Prefix(n[4])
	}
	slash := strings.Index(host, "/")
	if slash < 0 || !regexp.MustCompile(`\A[+-]?\d+\z`).MatchString(host[slash+1:]) {
		return netip.Prefix{}, fmt.Errorf("Could not parse [%s] - invalid prefix length", host)
	}
	address := host[:slash]
	bits, err := strconv.ParseInt(host[slash+1:], 10, 32)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("Could not parse [%s] - invalid prefix length", host)
	}
	if bits < 0 || bits > 128 {
		return netip.Prefix{}, fmt.Errorf("Could not parse [%s] - prefix length must be between 0 and 128", host)
	}
	strict, zoned := address, false
	if m := regexp.MustCompile(`\A\[([^\[\]]+)\]\z`).FindStringSubmatch(strict); m != nil {
		strict = m[1]
	}
	if m := regexp.MustCompile(`\A([^%]*)%(\d+)\z`).FindStringSubmatch(strict); m != nil {
		if zone, tooLong := strconv.ParseInt(m[2], 10, 32); tooLong == nil && zone >= 0 {
			strict, zoned = m[1], true
		}
	}
	// Each group and octet without what leading zeros it has too many; a dotted end has 15 characters at most.
	if dotted := regexp.MustCompile(`[0-9.]*\.[0-9.]*\z`).FindString(strict); len(dotted) <= 15 {
		strict = regexp.MustCompile(`(\A|[:.])0+([0-9a-fA-F])`).ReplaceAllString(strict, "$1$2")
	}
	a, err := netip.ParseAddr(strict)
	switch {
	case err != nil || a.Zone() != "" || !strings.Contains(strict, ":") || zoned && a.Is4In6():
		return netip.Prefix{}, fmt.Errorf("Could not parse [%s]", address)
	case a.Is4In6():
		return netip.Prefix{}, fmt.Errorf("Could not parse [%s] - not an IPv6 address", address)
	}
	return a.Prefix(int(bits))
}

func TestAHostMatchesTheAddressesThatKafkaMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host, client string
		want         bool
	}{
		{"*", "10.0.0.1", true},
		{"10.0.0.1", "10.0.0.1", true},
		{"10.0.0.1", "::ffff:10.0.0.1", true}, // a client of a dual-stack socket
		{"::ffff:10.0.0.1", "10.0.0.1", false},
		{"10.0.0.05", "10.0.0.5", false},
		{"10.0.0.05/32", "10.0.0.5", true},
		{"localhost", "127.0.0.1", false},
		{"2001:db8::1", "2001:db8::1", false}, // not as Java prints it
		{"2001:db8:0:0:0:0:0:1", "2001:db8::1", true},
		{"2001:DB8:0:0:0:0:0:1", "2001:db8::1", false},
		{"2001:db8::1/128", "2001:db8::1", true},
		{"::1", "::1", false},
		{"0:0:0:0:0:0:0:1", "::1", true},
		{"10.0.0.5/31", "10.0.0.4", true},
		{"10.0.0.5/31", "10.0.0.6", false},
		{"10.0.0.0/24", "10.0.0.0", true},
		{"10.0.0.0/24", "10.0.0.255", true},
		{"128.0.0.0/1", "200.1.1.1", true},
		{"128.0.0.0/1", "127.255.255.255", false},
		{"2001:db8::/120", "2001:db8::ff", true},
		{"2001:db8::/120", "2001:db8::100", false},
		{"2001:db8::5/64", "2001:db8:0:0:1::5", true},
		{"::/0", "10.0.0.1", false},
		{"0.0.0.0/0", "::1", false},
		{"0.0.0.0/0", "::ffff:10.0.0.1", true},
		{"::192.168.1.0/24", "::1", true},
		{"::192.168.1.0/24", "192.168.1.5", false},
		{"fe80::/10", "fe80::1%4", true},
		{"fe80::1/128", "fe80::1%4", true},
		{"fe80::1%7/128", "fe80::1%4", true},
		{"fe80:0:0:0:0:0:0:1%4", "fe80::1%4", true},
		{"fe80:0:0:0:0:0:0:1%5", "fe80::1%4", false},
		{"fe80:0:0:0:0:0:0:1", "fe80::1%4", false},
		{"bad/path", "10.0.0.1", false},
		{"", "10.0.0.1", false},
	} {
		client := netip.MustParseAddr(c.client)
		if got := Matches(c.host, client); got != c.want {
			t.Errorf("Matches(%q, %v) = %v, want %v", c.host, client, got, c.want)
		}
		x := NewIndex()
		x.Add(topicRule("t", Literal, 1, c.host, Read, Allow))
		q := Query{"User:u1", client, Read, Topic, "t"}
		if got := (&Authorizer{Index: x}).Authorize(q); got != c.want {
			t.Errorf("a rule for host %q allows a client at %v: %v, want %v", c.host, client, got, c.want)
		}
	}
}
