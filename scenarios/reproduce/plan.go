package reproduce

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// Source is what is known of the cluster that is to be reproduced.
type Source struct {
	Name       string // of the lab
	Rules      []acl.Binding
	Properties map[string]string // of a broker's server.properties
	RulesFile  string            // how the lab file calls the file of the rules; "": the rules are written into it
}

// Setup is a lab that reproduces a cluster's rules.
type Setup struct {
	Name       string
	Node       string // of the broker
	Addresses  []netip.Addr
	Listeners  []string // as Kafka writes them
	Config     map[string]string
	Subnets    []topology.Subnet
	Users      []topology.User
	Topics     []topology.Topic
	Rules      []acl.Binding
	RulesFile  string
	Expect     []Row
	Notes      []string // what could not be reproduced, one text each
	authorizer *acl.Authorizer
}

// Row is what one principal may do to one resource from one address.
type Row struct {
	Principal string
	From      netip.Addr
	Type      acl.ResourceType
	Name      string
	Listener  string
	Cells     []Expected
}

// Expected is what the rules say of one operation.
type Expected struct {
	Operation acl.Operation
	Allow     bool
	Rule      int // the number of the rule that decides, from 1; 0: none does
}

// maxRows bounds a lab file's expectations: more would not fit into it.
const maxRows = 1500

// nodeName is what the broker is called.
const nodeName = "broker1"

// Plan decides what lab tells the decisions of the rules apart. The same source gives the same setup. The error joins all that is
// wrong with the source.
func Plan(source Source) (*Setup, error) {
	p := &planner{
		source: source,
		setup:  &Setup{Name: source.Name, Node: nodeName, Rules: source.Rules, RulesFile: source.RulesFile, Config: map[string]string{}},
		logins: map[string]login{},
		taken:  map[string]bool{},
		number: map[acl.Binding]int{},
	}
	for i, rule := range source.Rules {
		if _, ok := p.number[rule]; !ok {
			p.number[rule] = i + 1
		}
	}
	if len(source.Rules) == 0 {
		p.wrong("there are no rules to reproduce")
	}
	for i, rule := range source.Rules {
		if rule.Type.String() == "UNKNOWN" || rule.Operation.String() == "UNKNOWN" || rule.Operation == acl.AnyOperation ||
			rule.Kind != acl.Literal && rule.Kind != acl.Prefixed || rule.Permission != acl.Allow && rule.Permission != acl.Deny {
			p.wrong("rule %d is none that a cluster can have: %s", i+1, rule)
		}
		for _, text := range []string{rule.Principal, rule.Host, rule.Name} {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				p.wrong("rule %d: %q cannot stand in a lab file", i+1, text)
			}
		}
	}
	p.config()
	p.listeners()
	p.authorize()
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	if p.tooMany() {
		return nil, errTooMany
	}
	p.network()
	p.people()
	p.resources()
	if err := p.expect(); err != nil {
		return nil, err
	}
	slices.Sort(p.setup.Notes)
	p.setup.Notes = slices.Compact(p.setup.Notes)
	return p.setup, nil
}

type planner struct {
	source  Source
	setup   *Setup
	errs    []error
	doors   []door
	mapping *mapping
	land    *land
	number  map[acl.Binding]int // of each rule, from 1

	principals []string
	logins     map[string]login
	taken      map[string]bool // names of users
	things     []thing
}

// thing is a resource that is asked about.
type thing struct {
	kind acl.ResourceType
	name string
}

var errTooMany = fmt.Errorf("these rules come to more rows of expectations than the %d that a lab file has room for: take a part of the rules", maxRows)

// tooMany finds rules that come to too many rows without making them, which takes time with the square of their number: each resource,
// each principal and each range that a rule about one of both has is a row at least.
func (p *planner) tooMany() bool {
	type pair struct {
		principal string
		thing     thing
	}
	total := 0
	things, principals, ranges := map[thing]struct{}{}, map[string]struct{}{}, map[pair]map[netip.Prefix]struct{}{}
	for rule := range p.number {
		if rule.Type == acl.DelegationToken || rule.Type == acl.User {
			continue
		}
		who := pair{rule.Principal, thing{rule.Type, rule.Name}}
		things[who.thing], principals[rule.Principal] = struct{}{}, struct{}{}
		if ranges[who] == nil {
			ranges[who] = map[netip.Prefix]struct{}{}
		}
		if r, _ := rangeOf(rule.Host); r.IsValid() {
			before := len(ranges[who])
			ranges[who][r] = struct{}{}
			total += len(ranges[who]) - before
		}
		// Not every range has an address in the lab, but very many have.
		if len(things) > maxRows || len(principals) > maxRows || len(ranges) > maxRows || total > 4*maxRows {
			return true
		}
	}
	return false
}

func (p *planner) wrong(format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

func (p *planner) note(format string, args ...any) {
	p.setup.Notes = append(p.setup.Notes, fmt.Sprintf(format, args...))
}

// config takes over the properties that decide about access, and no others: key stores, passwords and folders are the lab's own.
func (p *planner) config() {
	kept := regexp.MustCompile(`^(listener\.name\.[^.]+\.)?(ssl\.client\.auth|ssl\.principal\.mapping\.rules|sasl\.enabled\.mechanisms)$|` +
		`^(super\.users|allow\.everyone\.if\.no\.acl\.found|auto\.create\.topics\.enable|metadata\.version)$`)
	for key, value := range p.source.Properties {
		if kept.MatchString(key) {
			p.setup.Config[key] = strings.TrimSpace(value)
		}
	}
	switch class := strings.TrimSpace(p.source.Properties["authorizer.class.name"]); class {
	case broker.StandardAuthorizer, "":
		if class == "" {
			p.note("the properties name no authorizer.class.name: the lab has Kafka's StandardAuthorizer")
		}
	default:
		p.note("authorizer.class.name is %s: the lab has Kafka's StandardAuthorizer", class)
	}
	p.setup.Config["authorizer.class.name"] = broker.StandardAuthorizer
	for key, value := range p.setup.Config {
		if !strings.HasSuffix(key, "sasl.enabled.mechanisms") {
			continue
		}
		var known []string
		for m := range strings.SplitSeq(value, ",") {
			switch m = strings.TrimSpace(m); m {
			case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
				known = append(known, m)
			case "":
			default:
				p.note("%s: a lab has no %s: SCRAM-SHA-512 stands for it", key, m)
			}
		}
		if len(known) == 0 {
			known = []string{"SCRAM-SHA-512"}
		}
		p.setup.Config[key] = strings.Join(known, ",")
	}
	rules, set := p.setup.Config["ssl.principal.mapping.rules"]
	if !set {
		rules = "DEFAULT"
		p.setup.Config["ssl.principal.mapping.rules"] = rules // a lab has another default
	}
	var err error
	if p.mapping, err = newMapping(rules); err != nil {
		p.wrong("ssl.principal.mapping.rules: %w", err)
	}
}

// listeners takes over names, protocols and ports; the hosts are the lab's.
func (p *planner) listeners() {
	text := cmp.Or(strings.TrimSpace(p.source.Properties["listeners"]), "PLAINTEXT://:9092")
	protocols := map[string]string{}
	for pair := range strings.SplitSeq(p.source.Properties["listener.security.protocol.map"], ",") {
		if name, protocol, ok := strings.Cut(strings.TrimSpace(pair), ":"); ok {
			protocols[strings.ToUpper(name)] = strings.ToUpper(protocol)
		}
	}
	var controllers []string
	for name := range strings.SplitSeq(p.source.Properties["controller.listener.names"], ",") {
		controllers = append(controllers, strings.ToUpper(strings.TrimSpace(name)))
	}
	ports, names := map[int]bool{}, map[string]bool{}
	var mapped []string
	for one := range strings.SplitSeq(text, ",") {
		match := regexp.MustCompile(`^([A-Za-z0-9_.-]+)://(?:\[[^\]]*\]|[^:/\[\]]*):(\d{1,5})$`).FindStringSubmatch(strings.TrimSpace(one))
		if match == nil {
			p.wrong("listeners: %.100q is no listener such as SASL_SSL://:9095", one)
			continue
		}
		name := strings.ToUpper(match[1])
		port, _ := strconv.Atoi(match[2]) // five digits
		protocol := cmp.Or(protocols[name], name)
		switch {
		case slices.Contains(controllers, name):
			continue
		case !slices.Contains([]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, protocol):
			p.wrong("listeners: %s has no security protocol in listener.security.protocol.map", name)
			continue
		case port > 65535:
			p.wrong("listeners: %s: %d is not a port", name, port)
			continue
		case names[name]:
			p.wrong("listeners: %s is here twice", name)
			continue
		}
		for port == 0 || ports[port] {
			port = max(port+1, 9092)
		}
		ports[port], names[name] = true, true
		p.doors = append(p.doors, door{name, protocol})
		p.setup.Listeners = append(p.setup.Listeners, fmt.Sprintf("%s://:%d", name, port))
		mapped = append(mapped, name+":"+protocol)
	}
	if len(p.doors) == 0 && len(p.errs) == 0 {
		p.wrong("listeners: there is none for clients")
	}
	// One more, at which the lab itself creates topics and rules.
	port := 9999
	for ports[port] {
		port--
	}
	p.setup.Listeners = append(p.setup.Listeners, fmt.Sprintf("%s://:%d", adminListener, port))
	p.setup.Config["listener.security.protocol.map"] = strings.Join(append(mapped, adminListener+":SASL_PLAINTEXT"), ",")
	p.setup.Config["listener.name."+strings.ToLower(adminListener)+".sasl.enabled.mechanisms"] = "PLAIN"
}

const (
	adminListener = "LAB"
	adminUser     = "lab-admin"
)

// authorize makes the authorizer that says what is expected.
func (p *planner) authorize() {
	text := p.setup.Config["super.users"]
	super, err := acl.ParseSuperUsers(text)
	if err != nil {
		p.wrong("super.users: %w", err)
	}
	if len(p.errs) > 0 {
		return
	}
	for rule := range p.number {
		if rule.Principal == "User:"+adminUser {
			p.wrong("the principal %s is the lab's own: no rule can be about it", rule.Principal)
			return
		}
	}
	p.principals = append(p.principals, slices.Sorted(maps.Keys(super))...)
	p.setup.Config["super.users"] = strings.TrimPrefix(strings.TrimRight(text, "; ")+";User:"+adminUser, ";")
	everyone := strings.EqualFold(p.setup.Config["allow.everyone.if.no.acl.found"], "true")
	index := acl.NewIndex()
	index.Add(p.source.Rules...)
	p.setup.authorizer = &acl.Authorizer{Index: index, SuperUsers: super, AllowEveryone: everyone}
}

// network surveys the rules' hosts.
func (p *planner) network() {
	seen := map[string]bool{}
	var hosts []string
	for _, rule := range p.source.Rules {
		if !seen[rule.Host] {
			seen[rule.Host] = true
			hosts = append(hosts, rule.Host)
		}
	}
	slices.Sort(hosts)
	p.land = survey(hosts)
	p.setup.Notes = append(p.setup.Notes, p.land.notes...)
	p.setup.Addresses = p.land.nodes
	for _, plot := range p.land.plots {
		p.setup.Subnets = append(p.setup.Subnets, topology.Subnet{Name: plot.name, Prefixes: []netip.Prefix{plot.prefix}})
	}
}

// stranger is somebody whom no rule names.
const stranger = "User:stranger"

// people finds a way in for every principal.
func (p *planner) people() {
	for rule := range p.number {
		if rule.Principal != "User:*" {
			p.principals = append(p.principals, rule.Principal)
		}
	}
	slices.Sort(p.principals)
	p.principals = slices.Compact(p.principals)
	if !slices.Contains(p.principals, stranger) {
		p.principals = append(p.principals, stranger)
	}
	p.taken[adminUser] = true
	p.setup.Users = []topology.User{{Name: adminUser}}
	for _, principal := range p.principals {
		l, why := p.mapping.enter(principal, p.doors, p.taken)
		if why != "" {
			p.note("%s cannot be asked as: %s", principal, why)
			continue
		}
		if l.user != "" {
			p.taken[l.user] = true
			p.setup.Users = append(p.setup.Users, topology.User{Name: l.user, DN: l.dn})
		}
		p.logins[principal] = l
	}
}

// resources collects what rules name, an example for each prefix, and for each type one that no rule names.
func (p *planner) resources() {
	seen := map[thing]bool{{acl.Cluster, acl.ClusterName}: true}
	kinds := map[acl.ResourceType]bool{}
	for rule := range p.number {
		t := thing{rule.Type, rule.Name}
		switch rule.Type { //nolint:exhaustive // no other type is asked about
		case acl.DelegationToken, acl.User:
			p.note("rules for %s are not asked about: no request shows what they decide", rule.Type)
			continue
		case acl.Cluster:
			continue
		}
		kinds[rule.Type] = true
		if rule.Kind == acl.Prefixed {
			t.name += "1"
		} else if rule.Name == "*" {
			continue
		}
		seen[t] = true
	}
	for kind := range kinds {
		name := "unnamed"
		for i := 2; p.covered(kind, name) && i < 10; i++ {
			name = fmt.Sprintf("%d-unnamed", i)
		}
		seen[thing{kind, name}] = true
	}
	for t := range seen {
		if t.kind == acl.Topic && !regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`).MatchString(t.name) {
			p.note("Topic:%s is not asked about: no topic can have this name", t.name)
			continue
		}
		p.things = append(p.things, t)
		if t.kind == acl.Topic {
			p.setup.Topics = append(p.setup.Topics, topology.Topic{Name: t.name, Partitions: 1})
		}
	}
	slices.SortFunc(p.things, func(a, b thing) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) })
	slices.SortFunc(p.setup.Topics, func(a, b topology.Topic) int { return cmp.Compare(a.Name, b.Name) })
}

// covered tells whether a rule other than one for all names is about this one.
func (p *planner) covered(kind acl.ResourceType, name string) bool {
	for i := range p.source.Rules {
		if rule := &p.source.Rules[i]; rule.Name != "*" && covers(rule, kind, name) {
			return true
		}
	}
	return false
}

// covers tells whether a rule is about a resource.
func covers(rule *acl.Binding, kind acl.ResourceType, name string) bool {
	return rule.Type == kind && rule.Covers(name)
}

// expect asks the authorizer about every principal and resource, from one address of each kind that the rules for both tell
// apart. Pairs that no rule is about are asked once, as long as there is room.
func (p *planner) expect() error {
	var told, silent []Row
	left := 0
	for _, t := range p.things {
		if len(told) > maxRows {
			return errTooMany
		}
		named := p.hosts(t)
		for _, principal := range p.principals {
			l, ok := p.logins[principal]
			if !ok {
				continue
			}
			rows := &silent
			if len(named[principal]) > 0 || principal == stranger {
				rows = &told
			}
			if len(*rows) > maxRows {
				left++
				continue
			}
			for _, from := range p.kinds(slices.Concat(named[principal], named["User:*"])) {
				*rows = append(*rows, p.row(principal, l, from, t))
			}
		}
	}
	if len(told) > maxRows {
		return errTooMany
	}
	if len(told)+len(silent) > maxRows {
		p.note("%d rows are left out, of principals and resources that no rule is about together: each is as %s", len(silent)+left, stranger)
		silent = nil
	}
	p.setup.Expect = slices.Concat(told, silent)
	slices.SortStableFunc(p.setup.Expect, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// hosts are those of all rules about a resource, by principal.
func (p *planner) hosts(t thing) map[string][]string {
	all := map[string][]string{}
	for i := range p.source.Rules {
		if r := &p.source.Rules[i]; covers(r, t.kind, t.name) {
			all[r.Principal] = append(all[r.Principal], r.Host)
		}
	}
	return all
}

// kinds gives one address for each combination of hosts that an address can match or was meant to, in the order of the land's classes.
func (p *planner) kinds(hosts []string) []netip.Addr {
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	seen := map[string]bool{}
	var all []netip.Addr
	for _, c := range p.land.classes {
		var b strings.Builder
		for _, host := range hosts {
			meant, _ := rangeOf(host)
			switch {
			case acl.Matches(host, c.example):
				b.WriteByte('1')
			case meant.IsValid() && meant.Contains(c.example): // what somebody meant who wrote it otherwise than Kafka
				b.WriteByte('2')
			default:
				b.WriteByte('0')
			}
		}
		if !seen[b.String()] {
			seen[b.String()] = true
			all = append(all, c.example)
		}
	}
	return all
}

// row asks the authorizer.
func (p *planner) row(principal string, l login, from netip.Addr, t thing) Row {
	r := Row{Principal: principal, From: from, Type: t.kind, Name: t.name, Listener: l.listener}
	for _, op := range operations(t.kind) {
		e := p.setup.authorizer.Explain(acl.Query{Principal: principal, Client: from, Operation: op, Type: t.kind, Name: t.name})
		cell := Expected{Operation: op, Allow: e.Allowed}
		if e.Deciding != nil {
			cell.Rule = p.number[*e.Deciding]
		}
		r.Cells = append(r.Cells, cell)
	}
	return r
}

// operations are those of a type that requests show the decisions of.
func operations(t acl.ResourceType) []acl.Operation {
	return slices.DeleteFunc(slices.Sorted(slices.Values(acl.Operations(t))), func(op acl.Operation) bool { return op == acl.TwoPhaseCommit })
}
