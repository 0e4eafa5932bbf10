//go:build linux

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/magiconair/properties"
	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab/topology"
	"github.com/brokerlab/brokerlab/scenarios/reproduce"
)

type labInitOptions struct {
	rules      string
	properties string
	output     string
	name       string
	force      bool
}

func newLabInit(env Env) *cobra.Command {
	var o labInitOptions
	c := &cobra.Command{
		Use:   "init --from-acls FILE --properties FILE",
		Short: "Write a lab file that reproduces a cluster's rules (ACLs)",
		Long: `Write a lab file that reproduces a cluster's rules: what kafka-acls.sh --list printed, or another format that acls import
reads, and the server.properties of one of its brokers. The lab has

- subnets cut from the rules' hosts, so that for each kind of address that the rules tell apart there is one in the lab, and
  one elsewhere;
- a user for each principal: a certificate of which ssl.principal.mapping.rules make it, or a password;
- the broker's listeners, with their names, protocols and ports, and the properties that decide about access; key stores and
  all the rest are the lab's own;
- the topics that rules name, one for each prefix, and one that no rule names;
- the rules, and below expect: what they come to, with the number of the rule that decides. brokerlab check asks for each.

The same input gives the same file. What cannot be reproduced is said, and stands at the head of the file.

Exit status: 0 when the file was written, 2 when the input is wrong.`,
		Example: "  brokerlab lab init --from-acls examples/acls/acls.txt --properties examples/acls/server.properties",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return labInit(env, o) },
	}
	f := c.Flags()
	f.StringVar(&o.rules, "from-acls", "", "the `FILE` of rules")
	f.StringVar(&o.properties, "properties", "", "the server.properties `FILE` of a broker")
	f.StringVarP(&o.output, "output", "o", "", "write the lab file to `FILE` instead of standard output")
	f.StringVar(&o.name, "name", "", "the lab's name; without it that of the output file, or reproduced")
	f.BoolVar(&o.force, "force", false, "replace the output file if it is there")
	for _, required := range []string{"from-acls", "properties"} {
		if err := c.MarkFlagRequired(required); err != nil {
			panic(err) // the flag was added above
		}
	}
	return c
}

// rulesWithin is how many rules are written into the lab file; more stay in a file of their own.
const rulesWithin = 500

func labInit(env Env, o labInitOptions) error {
	wrong := func(err error) error { return &ExitError{Code: 2, Err: err} }
	rules, errRules := reproduce.ReadRules(o.rules)
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, errProperties := loader.LoadFile(o.properties)
	if errProperties != nil {
		errProperties = fmt.Errorf("read properties %s: %w", o.properties, errProperties)
	}
	if err := errors.Join(errRules, errProperties); err != nil {
		return wrong(err)
	}
	source := reproduce.Source{Name: o.name, Rules: rules, Properties: p.Map()}
	if source.Name == "" {
		source.Name = nameFromFile(o.output)
	}
	if len(rules) > rulesWithin {
		path, err := relative(o.rules, o.output)
		if err != nil {
			return wrong(err)
		}
		source.RulesFile = path
	}
	setup, err := reproduce.Plan(source)
	if err != nil {
		return wrong(fmt.Errorf("%s, %s:\n%w", o.rules, o.properties, err))
	}
	text := setup.YAML()
	place := o.output
	if place == "" {
		place = "reproduced.yaml"
	}
	if _, err = topology.Parse(place, text); err != nil {
		return wrong(fmt.Errorf("the lab file that these rules come to cannot be used:\n%w", err))
	}
	if err = o.write(env, text); err != nil {
		return wrong(err)
	}
	cells := 0
	for i := range setup.Expect {
		cells += len(setup.Expect[i].Cells)
	}
	for _, note := range setup.Notes {
		if _, err = fmt.Fprintf(env.Stderr, "note: %s\n", note); err != nil {
			return err
		}
	}
	if o.output == "" {
		return nil
	}
	_, err = fmt.Fprintf(env.Stdout, "%s: lab %s, %s, %s, %s, %d decisions to check\n\nAsk for each:  brokerlab check %s\n", o.output, setup.Name,
		plural(len(setup.Rules), "rule"), plural(len(setup.Users), "user"), plural(len(setup.Subnets), "subnet"), cells, o.output)
	return err
}

// write puts the lab file where it was asked for, and replaces nothing unasked.
func (o *labInitOptions) write(env Env, text []byte) error {
	if o.output == "" {
		_, err := env.Stdout.Write(text)
		return err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if o.force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(o.output, flags, 0o644) //nolint:gosec // a lab file is for everybody, and has no secrets but the lab's
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: --force replaces it", o.output)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// nameFromFile makes a lab's name of a file's.
func nameFromFile(path string) string {
	const most = 40
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	name = strings.Trim(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(name, "-"), "-")
	if path == "" || name == "" {
		return "reproduced"
	}
	return strings.Trim(name[:min(len(name), most)], "-")
}

// relative is how a file in the folder of output calls path.
func relative(path, output string) (string, error) {
	here, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	there, err := filepath.Abs(filepath.Dir(output))
	if err != nil {
		return "", err
	}
	return filepath.Rel(there, here)
}
