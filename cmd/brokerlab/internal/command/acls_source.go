package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/magiconair/properties"
	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/aclfile"
	"github.com/brokerlab/brokerlab/broker/admin"
)

// aclSource are the flags of commands that take rules from a cluster or from files, and what else decides about access.
type aclSource struct {
	bootstrapOptions

	files         []string
	from          string
	properties    string
	superUsers    string
	allowEveryone bool
}

// addACLSource gives c the flags.
func addACLSource(c *cobra.Command, s *aclSource) {
	f := c.Flags()
	f.StringVar(&s.servers, "bootstrap-server", "", "take the rules of the cluster of these brokers, `host:port,…`; IPv6 in brackets")
	f.StringVar(&s.config, "command-config", "", "a client.properties `file`: how to authenticate and encrypt")
	f.StringArrayVar(&s.files, "acls", nil, "take the rules from this `file`, - is standard input; may be repeated")
	addACLFormat(c, &s.from, "from", "what kind of files they are")
	f.StringVar(&s.properties, "properties", "", "a broker's server.properties `file`: its super.users, allow.everyone.if.no.acl.found and ssl.principal.mapping.rules")
	f.StringVar(&s.superUsers, "super-users", "", "`users` who may do everything, as in super.users: Type:name;Type:name")
	f.BoolVar(&s.allowEveryone, "allow-everyone", false, "allow what no rule is about, as allow.everyone.if.no.acl.found=true does")
}

func addACLFormat(c *cobra.Command, format *string, flag, what string) {
	var names []string
	for _, f := range aclfile.Formats() {
		names = append(names, string(f))
	}
	c.Flags().StringVar(format, flag, "", what+": a `format` of "+strings.Join(names, ", ")+" (default: by name and content)")
}

// loadedACLs is everything that decides about access.
type loadedACLs struct {
	from          string // the files, or the servers
	rules         []acl.Binding
	entries       []aclfile.Entry // with the lines of the rules that files have
	files         []fileStart     // of which file they are
	superUsers    map[string]struct{}
	allowEveryone bool
	mapping       *admin.PrincipalRules
}

// fileStart is a file and which entry is its first.
type fileStart struct {
	name  string
	first int
}

// place is where a rule stands, as file:line, or only the line where one file is all there is; "" for those of a cluster.
func (l *loadedACLs) place(rule int) string {
	line := l.entries[rule].Line
	switch {
	case line == 0:
		return ""
	case len(l.files) == 1:
		return strconv.Itoa(line)
	}
	return l.file(rule) + ":" + strconv.Itoa(line)
}

// file is the file of a rule; "" for those of a cluster.
func (l *loadedACLs) file(rule int) string {
	name := ""
	for _, f := range l.files {
		if f.first <= rule {
			name = f.name
		}
	}
	return name
}

func (l *loadedACLs) authorizer() *acl.Authorizer {
	index := acl.NewIndex()
	index.Add(l.rules...)
	return &acl.Authorizer{Index: index, SuperUsers: l.superUsers, AllowEveryone: l.allowEveryone}
}

// principal reads one as people give it: Type:name, or the distinguished name of a certificate, which the rules map.
func (l *loadedACLs) principal(text string) (string, error) {
	kind, _, ok := acl.SplitPrincipal(text)
	switch {
	case text == "":
		return "", errors.New("principal: want Type:name, or the distinguished name of a certificate")
	case ok && !strings.Contains(kind, "="):
		return text, nil
	case !strings.Contains(text, "="):
		return "", fmt.Errorf("principal %q: want Type:name, such as User:%s, or the distinguished name of a certificate", text, text)
	}
	name, err := l.mapping.Map(text)
	if err != nil {
		return "", err
	}
	return "User:" + name, nil
}

// load reads the rules. What is wrong with the command line or with files ends the command with status 2.
func (s *aclSource) load(ctx context.Context, env Env) (*loadedACLs, error) {
	if (s.servers == "") == (len(s.files) == 0) {
		return nil, usage("say where the rules are: --bootstrap-server host:port or --acls file, one of the two")
	}
	l := &loadedACLs{allowEveryone: s.allowEveryone}
	errs := []error{s.settings(l)}
	for _, file := range s.files {
		entries, err := readACLFile(env, file, s.from)
		errs = append(errs, err)
		l.files = append(l.files, fileStart{file, len(l.entries)})
		l.entries = append(l.entries, entries...)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &ExitError{Code: 2, Err: err}
	}
	for _, e := range l.entries {
		l.rules = append(l.rules, e.Binding)
	}
	l.from = strings.Join(s.files, ", ")
	if s.servers == "" {
		return l, nil
	}
	l.from = s.servers
	cl, err := s.open(env)
	if err != nil {
		return nil, &ExitError{Code: 2, Err: err}
	}
	defer cl.kgo.Close()
	if l.rules, err = describeACLs(ctx, cl, nil); err != nil {
		return nil, &ExitError{Code: 2, Err: fmt.Errorf("ask %s for its rules: %w", s.servers, err)}
	}
	for _, b := range l.rules {
		l.entries = append(l.entries, aclfile.Entry{Binding: b})
	}
	return l, nil
}

// settings reads what decides beside the rules.
func (s *aclSource) settings(l *loadedACLs) error {
	mapping := "DEFAULT"
	supers := map[string]struct{}{}
	var errs []error
	if s.properties != "" {
		loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
		p, err := loader.LoadFile(s.properties)
		if err != nil {
			return fmt.Errorf("--properties: %w", err)
		}
		more, err := acl.ParseSuperUsers(p.GetString("super.users", ""))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: super.users: %w", s.properties, err))
		}
		maps.Copy(supers, more)
		mapping = p.GetString("ssl.principal.mapping.rules", mapping)
		everyone := p.GetString("allow.everyone.if.no.acl.found", "false")
		l.allowEveryone = l.allowEveryone || strings.EqualFold(strings.TrimSpace(everyone), "true")
	}
	more, err := acl.ParseSuperUsers(s.superUsers)
	if err != nil {
		errs = append(errs, fmt.Errorf("--super-users: %w", err))
	}
	maps.Copy(supers, more)
	l.superUsers = supers
	if l.mapping, err = admin.ParsePrincipalRules(mapping); err != nil {
		errs = append(errs, fmt.Errorf("%s: ssl.principal.mapping.rules: %w", s.properties, err))
	}
	return errors.Join(errs...)
}

// readACLFile reads a file of rules; "-" is standard input, and format "" is to be found out.
func readACLFile(env Env, path, format string) ([]aclfile.Entry, error) {
	in, name := env.Stdin, "standard input"
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close() //nolint:errcheck // it is only read
		in, name = file, path
	}
	const enough = 4096 // to know a format by
	buffered := bufio.NewReaderSize(in, enough)
	var f aclfile.Format
	var err error
	if format == "" {
		head, _ := buffered.Peek(enough) // shorter at the end, and Read has any error
		if f, err = aclfile.Detect(name, head); err != nil {
			err = fmt.Errorf("%w, with --from", err)
		}
	} else {
		f, err = aclfile.ParseFormat(format)
	}
	if err != nil {
		return nil, err
	}
	return aclfile.Read(buffered, name, f)
}

// ruleText is a rule on one line, as people say it.
func ruleText(b acl.Binding) string {
	return fmt.Sprintf("%s %s from %s: %s on %s", b.Permission, shown(b.Principal), shown(b.Host), b.Operation, patternText(b.Pattern))
}

func patternText(p acl.Pattern) string {
	text := p.Type.String() + " " + shown(p.Name)
	if p.Kind == acl.Prefixed {
		text += "… (prefixed)"
	}
	return text
}

// printHanging prints lead and then text, broken between words to helpWidth columns, its lines below each other.
func printHanging(w io.Writer, lead, text string) error {
	indent := utf8.RuneCountInString(lead)
	room := max(helpWidth-indent, 20)
	var b strings.Builder
	b.WriteString(lead)
	column := 0
	newLine := func() {
		b.WriteString("\n" + strings.Repeat(" ", indent))
		column = 0
	}
	for word := range strings.FieldsSeq(text) {
		runes := []rune(word)
		if column > 0 && column+1+len(runes) > room {
			newLine()
		} else if column > 0 {
			b.WriteByte(' ')
			column++
		}
		for len(runes) > room-column {
			n := room - column
			b.WriteString(string(runes[:n]))
			runes = runes[n:]
			newLine()
		}
		b.WriteString(string(runes))
		column += len(runes)
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	return err
}
