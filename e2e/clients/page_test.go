package clients

import (
	"fmt"
	"slices"
	"strings"
)

// primary is the pair whose troubles the page tells in full.
func primary() pair { return pair{"SASL_PLAINTEXT", "IPv4"} }

// page prints docs/clients.md.
func (r *results) page() string {
	p := &printer{}
	p.line("# Real clients")
	p.line("")
	p.line("What clients that people use do against a brokerlab broker, and what they do when it gives them trouble. This page is made by")
	p.line("`make clients`, which runs every client over every protocol and family; `make test` holds each client to a part of it. Clients that")
	p.line("could not be had on the machine of a run keep what an earlier one saw. Their programs are in `e2e/clients/programs`.")
	p.line("")
	p.line("Whether Apache Kafka 4.4.0 treats a client alike is seen by `go test ./e2e/clients -kafka -only CLIENT`, which tries the same there and")
	p.line("compares it with this page. What does not work here was tried there, too: \"nor with Kafka\" is what does not work there either, and so is")
	p.line("the client's own doing.")
	p.line("")
	r.operations(p)
	r.pairs(p)
	r.survivors(p)
	for _, c := range r.Clients {
		c.section(p, r.kafka)
	}
	return strings.TrimRight(p.b.String(), "\n") + "\n"
}

type printer struct{ b strings.Builder }

func (p *printer) line(format string, args ...any) {
	if len(args) == 0 {
		p.b.WriteString(format + "\n")
		return
	}
	fmt.Fprintf(&p.b, format+"\n", args...)
}

// item prints an item of a list, in lines of at most 120 columns.
func (p *printer) item(format string, args ...any) {
	const width = 120
	line := "-"
	for word := range strings.FieldsSeq(fmt.Sprintf(format, args...)) {
		if len([]rune(line))+1+len([]rune(word)) > width {
			p.b.WriteString(line + "\n")
			line = " "
		}
		line += " " + word
	}
	p.b.WriteString(line + "\n")
}

// row prints a row of a table.
func (p *printer) row(cells ...string) { p.line("| %s |", strings.Join(cells, " | ")) }

// head prints the head of a table.
func (p *printer) head(cells ...string) {
	p.row(cells...)
	p.b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
}

// operations prints which client can do what.
func (r *results) operations(p *printer) {
	p.line("## What works")
	p.line("")
	p.head("client", "version", "metadata", "admin", "produce", "idempotent", "transactions", "group", "refused by range", "says it is")
	for _, c := range r.Clients {
		cells := []string{c.Client, c.Version}
		for _, op := range operations() {
			cells = append(cells, c.word(op))
			if op == "produce" {
				cells = append(cells, yes(c.Idempotent))
			}
		}
		says := "nothing"
		if c.Software != "" {
			says = "`" + c.Software + "`"
		}
		p.row(append(cells, says)...)
	}
	p.line("")
	p.line("*Admin* creates, describes and deletes a topic; with Kafka's tools also configs, rules and groups. *Group* reads as a member of a group,")
	p.line("committed records only. *Refused by range*: one topic is closed to the addresses that the client comes from (127.0.0.0/8 or ::1/128),")
	p.line("another to the other family's; it must write to one alone and be told of the other. \"–\": the client has no such thing. \"some\": not over")
	p.line("every protocol and family, see its section. *Says it is*: name and version in ApiVersions (KIP-511).")
	p.line("")
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// word tells of an operation over all pairs.
func (r *result) word(op string) string {
	works, fails := 0, 0
	for _, ops := range r.Cells {
		switch c, ok := ops[op]; {
		case !ok:
		case c.Unsupported != "":
			return "–"
		case c.Works:
			works++
		default:
			fails++
		}
	}
	switch {
	case fails == 0 && works == 0:
		return "?"
	case fails == 0:
		return "yes"
	case works == 0:
		return "no"
	}
	return "some"
}

// pairs prints which client works over which protocol and family.
func (r *results) pairs(p *printer) {
	p.line("## Over which protocol and family")
	p.line("")
	head := []string{"client"}
	for _, x := range pairs() {
		name := x.protocol + " " + x.family
		if strings.HasPrefix(x.protocol, "SASL") {
			name += ", " + x.mechanism()
		}
		head = append(head, name)
	}
	p.head(head...)
	for _, c := range r.Clients {
		cells := []string{c.Client}
		for _, x := range pairs() {
			works, all := c.over(x)
			switch {
			case all == 0:
				cells = append(cells, "?")
			case works == all:
				cells = append(cells, "yes")
			case works == 0 && r.kafka.refuses(c.Client, x):
				cells = append(cells, "no, nor with Kafka")
			case works == 0:
				cells = append(cells, "no")
			default:
				cells = append(cells, fmt.Sprintf("%d of %d", works, all))
			}
		}
		p.row(cells...)
	}
	p.line("")
	p.line("Bootstrap is `127.0.0.1:port` or `[::1]:port`, IPv6 in brackets. Over SSL and IPv4 the client has a certificate of its own.")
	p.line("")
}

// over counts the operations that a client has, and those that work over a pair.
func (r *result) over(x pair) (works, all int) {
	for _, c := range r.Cells[x.String()] {
		if c.Unsupported != "" {
			continue
		}
		all++
		if c.Works {
			works++
		}
	}
	return works, all
}

// troubles are what a client is put through, in this order, with the words of the page.
func troubles() [][2]string {
	return [][2]string{
		{"slot", "no slot is free (`max.connections`)"},
		{"reauth", "its session ends (`connections.max.reauth.ms`)"},
		{"idle", "it is idle for longer than `connections.max.idle.ms`"},
		{"evicted", "its idle connections are evicted (`max.connections`)"},
		{"restart", "the broker stops and starts again"},
		{"eof", "the broker is killed, and then closes at accept (`max.connections.per.ip`)"},
	}
}

// survivors prints which client goes on after which trouble.
func (r *results) survivors(p *printer) {
	p.line("## What they survive")
	p.line("")
	p.line("A producer and a consumer in a group send records and read them again, round after round, while this happens to them:")
	p.line("")
	head := []string{"client"}
	for _, t := range troubles() {
		head = append(head, t[1])
	}
	p.head(head...)
	for _, c := range r.Clients {
		cells := []string{c.Client}
		for _, t := range troubles() {
			works, all, again := 0, 0, 0
			for _, seen := range c.Troubles {
				if s, ok := seen[t[0]]; ok {
					all++
					if s.Works {
						works++
					}
					again += s.Times
				}
			}
			word := "goes on"
			switch {
			case all == 0:
				word = "?"
			case works == 0:
				word = "does not go on"
			case works < all:
				word = fmt.Sprintf("goes on over %d of %d", works, all)
			case t[0] == "reauth" && again > 0:
				word = "authenticates again"
			case t[0] == "reauth":
				word = "is cut, and connects again"
			}
			cells = append(cells, word)
		}
		p.row(cells...)
	}
	p.line("")
}

// section prints all that is known of a client.
func (r *result) section(p *printer, kafka cellsOfKafka) {
	p.line("## %s", r.Client)
	p.line("")
	p.line("%s, `%s` %s.", capital(r.Language), r.Library, r.Version)
	p.line("")
	p.item("Connections that it opens: %s. A producer and a consumer in a group have %d open.", r.opens(), r.AtOnce)
	p.item("Bootstrap `[::1]:port`: %s", r.brackets())
	for _, t := range troubles() {
		if seen, ok := r.Troubles[primary().String()][t[0]]; ok {
			p.item("When %s: %s", t[1], seen.words(t[0]))
		}
	}
	for _, t := range refusals() {
		if seen, ok := r.Refusals[t[0]]; ok {
			p.item("%s: %s", t[1], seen.words())
		}
	}
	for _, x := range pairs() {
		r.remarks(p, kafka, x)
	}
	for _, op := range operations() {
		if why := r.unsupported(op); why != "" {
			p.item("No %s: %s.", op, why)
		}
	}
	p.line("")
}

// remarks prints what is to be said of operations and troubles over a pair.
func (r *result) remarks(p *printer, kafka cellsOfKafka, x pair) {
	nor := func(ops ...string) string {
		if kafka.refuses(r.Client, x, ops...) {
			return " So it is with Apache Kafka."
		}
		return ""
	}
	if works, all := r.over(x); works == 0 && all > 0 {
		p.item("Nothing works over %s %s. Asked for metadata it says %s.%s", x.protocol, x.family, quote(r.Cells[x.String()]["metadata"].Said), nor())
		return
	}
	for _, op := range operations() {
		switch c, ok := r.Cells[x.String()][op]; {
		case !ok || c.Said == "":
		case c.Works:
			p.item("%s over %s %s: %s", capital(op), x.protocol, x.family, quote(c.Said))
		default:
			p.item("%s over %s %s does not work: %s.%s", capital(op), x.protocol, x.family, quote(c.Said), nor(op))
		}
	}
	for _, t := range troubles() {
		if seen, ok := r.Troubles[x.String()][t[0]]; ok && !seen.Works && x != primary() {
			p.item("Over %s %s, when %s: %s", x.protocol, x.family, t[1], seen.words(t[0]))
		}
	}
}

func (r *result) unsupported(op string) string {
	for _, ops := range r.Cells {
		if c := ops[op]; c.Unsupported != "" {
			return c.Unsupported
		}
	}
	return ""
}

// opens tells how many connections each operation takes.
func (r *result) opens() string {
	var parts []string
	for _, op := range operations() {
		if n, ok := r.Opens[op]; ok {
			parts = append(parts, fmt.Sprintf("%s %d", op, n))
		}
	}
	return strings.Join(parts, ", ")
}

// brackets tells whether an IPv6 bootstrap in brackets works, and otherwise over which protocols it does not.
func (r *result) brackets() string {
	var works, fails []string
	for _, x := range pairs() {
		if c, ok := r.Cells[x.String()]["metadata"]; ok && x.family == "IPv6" {
			if c.Works {
				works = append(works, x.protocol)
			} else {
				fails = append(fails, x.protocol)
			}
		}
	}
	switch {
	case len(works)+len(fails) == 0:
		return "not tried."
	case len(fails) == 0:
		return "works."
	case len(works) == 0:
		return "does not work (" + strings.Join(fails, ", ") + ")."
	}
	return "works over " + strings.Join(works, ", ") + ", not over " + strings.Join(fails, ", ") + "."
}

func refusals() [][2]string {
	return [][2]string{
		{"eof", "A new client that is closed at accept"},
		{"write", "Without WRITE on the topic"},
		{"read", "Without READ on the topic"},
		{"group", "Without READ on the group"},
		{"password", "With a wrong password"},
		{"certificate", "When it does not trust the broker's certificate"},
	}
}

// words tell of a refusal.
func (s refusal) words() string {
	switch s.Said {
	case "–":
		return "–"
	case "nothing":
		return "it tells of no error."
	}
	text := roughly(s.MS)
	if s.Told {
		text += " it says "
	} else {
		text += ", not naming the reason, it says "
	}
	text += quote(s.Said)
	if s.Retriable != nil && *s.Retriable {
		text += ", for the caller to retry"
	}
	if s.Times > 1 {
		text += fmt.Sprintf("; it tried %d times", s.Times)
	}
	return text + "."
}

// words tell how a client fared.
func (s trouble) words(name string) string {
	var text string
	switch {
	case name == "slot" && len(s.Said) == 0:
		text = "it waits and tells of nothing"
	case name == "reauth" && s.Times > 0:
		text = fmt.Sprintf("it authenticates again (%d times in 7 s, with sessions of 3 s)", s.Times)
		if s.Killed > 0 {
			text += fmt.Sprintf(", too late on %d connections, which were cut", s.Killed)
		}
	case name == "reauth":
		text = fmt.Sprintf("it does not authenticate again: %d connections were cut in 7 s, with sessions of 3 s; it connects again", s.Killed)
	case name == "idle":
		text = fmt.Sprintf("the broker closed %d of its connections, and it goes on with others", s.Times)
	case name == "eof":
		text = fmt.Sprintf("it connects %d times in 4 s", s.Times)
	case len(s.Said) == 0:
		text = "it tells of nothing"
	default:
		text = "it tells of errors"
	}
	if !s.Works {
		text += ", and it does not go on"
	} else if name != "reauth" && name != "idle" {
		text += "; when it is over it goes on " + roughly(s.ResumedMS)
	}
	if len(s.Said) > 0 {
		said := slices.Clone(s.Said)
		slices.SortFunc(said, func(a, b string) int { return len(a) - len(b) })
		text += "; it said " + quote(said[0])
		if len(said) > 1 {
			text += fmt.Sprintf(", and %d more", len(said)-1)
		}
	}
	return text + "."
}

// roughly is a time in words: the machine of a run may be slow.
func roughly(ms int64) string {
	switch {
	case ms < 2500:
		return "at once"
	case ms < 10_000:
		return "after seconds"
	case ms < 25_000:
		return "after ten or twenty seconds"
	}
	return "after half a minute or more"
}

// quote is a text as code, on one line.
func quote(text string) string {
	if runes := []rune(text); len(runes) > 200 {
		text = string(runes[:200]) + "…"
	}
	return "`" + strings.ReplaceAll(strings.ReplaceAll(text, "`", "'"), "|", "¦") + "`"
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
