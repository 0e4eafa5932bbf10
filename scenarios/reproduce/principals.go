package reproduce

import (
	"cmp"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

const anonymous = "User:ANONYMOUS"

// login is how a principal gets into a broker.
type login struct {
	principal string
	user      string // in the lab; "" for nobody in particular
	dn        string // of the user's certificate; "": CN=user
	listener  string
}

// door is a listener as far as logging in goes.
type door struct{ name, protocol string }

// mapping is ssl.principal.mapping.rules and its text.
type mapping struct {
	rules *admin.PrincipalRules
	text  string
}

func newMapping(text string) (*mapping, error) {
	rules, err := admin.ParsePrincipalRules(text)
	if err != nil {
		return nil, err
	}
	return &mapping{rules, text}, nil
}

// plainName is what a user of a lab may be called.
func plainName(name string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,39}$`).MatchString(name)
}

// enter finds a way for a principal: a name that is a distinguished name by certificate, another by password where there is a
// listener for it, and else by a certificate of which the rules make the name. why says what is missing.
func (m *mapping) enter(principal string, doors []door, taken map[string]bool) (l login, why string) {
	kind, name, _ := acl.SplitPrincipal(principal)
	at := func(protocols ...string) string {
		for _, d := range doors {
			if slices.Contains(protocols, d.protocol) {
				return d.name
			}
		}
		return ""
	}
	plaintext, password, certificate := at("PLAINTEXT"), at("SASL_SSL", "SASL_PLAINTEXT"), at("SSL")
	switch {
	case kind != "User":
		return l, "only principals of type User can log in"
	case principal == anonymous:
		if plaintext == "" {
			return l, "no listener lets anonymous clients in"
		}
		return login{principal: principal, listener: plaintext}, ""
	}
	_, notDN := topology.ParseDN(name)
	if password != "" && plainName(name) && (notDN != nil || certificate == "") {
		return login{principal: principal, user: name, listener: password}, ""
	}
	if certificate == "" {
		if password == "" {
			return l, "no listener asks who its clients are"
		}
		return l, "a lab has no user of such a name, and no listener takes certificates"
	}
	dn, err := m.certificateFor(name)
	if err != nil {
		return l, err.Error()
	}
	return login{principal: principal, user: userName(name, taken), dn: dn, listener: certificate}, ""
}

// userName makes a file name of a principal's name that no other user has.
func userName(name string, taken map[string]bool) string {
	if dn, err := topology.ParseDN(name); err == nil {
		if cn, ok := dn[len(dn)-1][0].Value.(string); ok {
			name = cn
		}
	}
	name = strings.Trim(regexp.MustCompile(`[^A-Za-z0-9_.@-]+`).ReplaceAllString(name, "-"), "-.@")
	if name == "" {
		name = "user"
	}
	name = strings.TrimRight(name[:min(len(name), 32)], "-.@")
	unique := name
	for i := 2; taken[unique]; i++ {
		unique = fmt.Sprintf("%s-%d", name, i)
	}
	return unique
}

// certificateFor finds a subject that the rules map to name, and gives it as the broker will print it.
func (m *mapping) certificateFor(name string) (string, error) {
	var asPrinted string
	for _, candidate := range append([]string{name, "CN=" + escapeDN(name)}, m.invert(name)...) {
		subject, err := printed(candidate)
		if err != nil {
			continue
		}
		if candidate == name {
			asPrinted = subject
		}
		if mapped, err := m.rules.Map(subject); err == nil && mapped == name {
			return subject, nil
		}
	}
	if asPrinted != "" && asPrinted != name {
		return "", fmt.Errorf("no certificate has this name: Kafka prints such a subject as %s", asPrinted)
	}
	return "", errors.New("no certificate is known of which ssl.principal.mapping.rules make this name")
}

// printed is a distinguished name as brokers print it.
func printed(text string) (string, error) {
	dn, err := topology.ParseDN(text)
	if err != nil {
		return "", err
	}
	der, err := asn1.Marshal(dn)
	if err != nil {
		return "", err
	}
	return admin.Subject(&x509.Certificate{RawSubject: der}), nil
}

func escapeDN(text string) string {
	return regexp.MustCompile(`[,+"\\<>;=]`).ReplaceAllString(text, `\$0`)
}

// invert makes subjects of which the rules could make name: for each rule the shortest text that its pattern matches with
// name in the place of each group that the rule prints.
func (m *mapping) invert(name string) []string {
	var all []string
	for _, rule := range regexp.MustCompile(`RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/[LU]?`).FindAllStringSubmatch(m.text, -1) {
		pattern, err := syntax.Parse(rule[1], syntax.Perl)
		if err != nil {
			continue
		}
		pattern = pattern.Simplify()
		for _, inserted := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			for _, filled := range fillings(rule[2], inserted) {
				text := shortest(pattern, filled)
				all = append(all, text, strings.TrimRight(text, ",")+",OU=lab")
			}
		}
	}
	return all
}

// fillings gives what the groups of a pattern should match so that a replacement comes to name.
func fillings(replacement, name string) []map[int]string {
	group := regexp.MustCompile(`\$(\d)`).FindAllStringSubmatchIndex(replacement, -1)
	if len(group) == 0 {
		return nil
	}
	digit := func(at []int) int { return int(replacement[at[2]] - '0') }
	middle, ok := strings.CutPrefix(name, replacement[:group[0][0]])
	if !ok {
		return nil
	}
	if len(group) == 1 {
		middle, ok = strings.CutSuffix(middle, replacement[group[0][1]:])
		if !ok {
			return nil
		}
		return []map[int]string{{digit(group[0]): middle}}
	}
	// Such as $1@$2.
	between := replacement[group[0][1]:group[1][0]]
	left, right, ok := strings.Cut(middle, between)
	if !ok || between == "" {
		return nil
	}
	right, ok = strings.CutSuffix(right, replacement[group[1][1]:])
	if !ok {
		return nil
	}
	return []map[int]string{{digit(group[0]): left, digit(group[1]): right}}
}

// shortest is the shortest text that a pattern matches, with the filled groups as they are.
func shortest(p *syntax.Regexp, filled map[int]string) string {
	var b strings.Builder
	switch p.Op { //nolint:exhaustive // the others match the empty text
	case syntax.OpLiteral:
		return string(p.Rune)
	case syntax.OpCharClass:
		return oneOf(p.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpCapture:
		if text, ok := filled[p.Cap]; ok {
			return text
		}
		return cmp.Or(shortest(p.Sub[0], filled), "x") // no part of a subject is empty
	case syntax.OpPlus, syntax.OpAlternate:
		return shortest(p.Sub[0], filled)
	case syntax.OpStar, syntax.OpQuest:
		if text := shortest(p.Sub[0], filled); p.Sub[0].Op == syntax.OpCapture && len(filled) > 0 {
			return text
		}
	case syntax.OpRepeat:
		return strings.Repeat(shortest(p.Sub[0], filled), p.Min)
	case syntax.OpConcat:
		for _, sub := range p.Sub {
			b.WriteString(shortest(sub, filled))
		}
	}
	return b.String()
}

// oneOf is a character of a class, which is pairs of the first and last of a range: a letter if there is one.
func oneOf(class []rune) string {
	for _, preferred := range "xX1 " {
		for i := 0; i+1 < len(class); i += 2 {
			if class[i] <= preferred && preferred <= class[i+1] {
				return string(preferred)
			}
		}
	}
	if len(class) == 0 {
		return ""
	}
	return string(class[0])
}
