package command

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/acl/audit"
)

type aclsMatrixOptions struct {
	aclSource

	principal                     string
	topic, group, transactionalID string
	cluster                       bool
	html                          bool
	format                        format
}

func newACLsMatrix(env Env) *cobra.Command {
	var o aclsMatrixOptions
	c := &cobra.Command{
		Use:   "matrix",
		Short: "Show who may do what, from where",
		Long: `Show what the rules come to: for each principal and resource, which operations are allowed from which addresses. The
addresses are those ranges that the hosts of rules tell apart, all of them, so that the matrix holds for every client. Where a
rule is about a prefix or about every name, one name stands for all others. The rules are a cluster's or those of files.

Exit status: 0 shown, 2 the rules cannot be read.`,
		Example: `  brokerlab acls matrix --acls examples/acls/acls.txt --principal User:billing
  brokerlab acls matrix --acls examples/acls/acls.txt --topic orders --format json
  brokerlab acls matrix --acls examples/acls/acls.txt --html > /tmp/matrix.html`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), env) },
	}
	f := c.Flags()
	f.StringVar(&o.principal, "principal", "", "only this `Type:name`, or the distinguished name of a certificate")
	f.StringVar(&o.topic, "topic", "", "only the topic of this `name`")
	f.StringVar(&o.group, "group", "", "only the group of this `name`")
	f.StringVar(&o.transactionalID, "transactional-id", "", "only this transactional `id`")
	f.BoolVar(&o.cluster, "cluster", false, "only the cluster")
	f.BoolVar(&o.html, "html", false, "print a page instead of a table")
	addACLSource(c, &o.aclSource)
	addFormat(c, &o.format)
	return c
}

// want is what the flags select.
func (o *aclsMatrixOptions) want(l *loadedACLs) (audit.Want, error) {
	var want audit.Want
	given := 0
	for t, name := range map[acl.ResourceType]string{acl.Topic: o.topic, acl.Group: o.group, acl.TransactionalID: o.transactionalID} {
		if name != "" {
			want.Type, want.Name = t, name
			given++
		}
	}
	if o.cluster {
		want.Type, want.Name = acl.Cluster, acl.ClusterName
		given++
	}
	if given > 1 {
		return want, usage("name one resource at most")
	}
	if o.principal == "" {
		return want, nil
	}
	who, err := l.principal(o.principal)
	if err != nil {
		return want, &ExitError{Code: 2, Err: err}
	}
	want.Principal = who
	return want, nil
}

func (o *aclsMatrixOptions) run(ctx context.Context, env Env) error {
	l, err := o.load(ctx, env)
	if err != nil {
		return err
	}
	want, err := o.want(l)
	if err != nil {
		return err
	}
	var cells []audit.Cell
	err = withProgress(ctx, env, "", func(func(done, of int)) (err error) {
		cells, err = audit.Matrix(l.policy(), want)
		return err
	})
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	rows := make([]jsonCell, len(cells))
	for i := range cells {
		c := &cells[i]
		rows[i] = jsonCell{
			c.Principal, c.Resource.Type.String(), c.Resource.Name, c.Resource.Others, rangeTexts(c.Ranges), acl.HostText(c.Witness), operationNames(c.Allowed),
		}
	}
	switch {
	case o.html:
		return printMatrixPage(env.Stdout, l.from, rows)
	case o.format == formatJSON:
		return printJSON(env.Stdout, rows)
	}
	return printMatrix(env.Stdout, cells)
}

// jsonCell is a cell of --format json.
type jsonCell struct {
	Principal    string   `json:"principal"`
	ResourceType string   `json:"resourceType"`
	ResourceName string   `json:"resourceName"`
	StandsFor    string   `json:"standsFor,omitempty"` // the pattern of the other names that it stands for
	From         []string `json:"from"`
	Witness      string   `json:"witness"` // as Kafka prints it
	Allowed      []string `json:"allowed"`
}

func printMatrix(w io.Writer, cells []audit.Cell) error {
	for i := range cells {
		c := &cells[i]
		if i == 0 || cells[i-1].Principal != c.Principal || cells[i-1].Resource != c.Resource {
			if err := printHanging(w, "", principalText(c.Principal)+" on "+shown(c.Resource.String())); err != nil {
				return err
			}
		}
		ops := strings.Join(operationNames(c.Allowed), ", ")
		if ops == "" {
			ops = "nothing"
		}
		if err := printHanging(w, "  ", ops); err != nil {
			return err
		}
		if err := printHanging(w, "      ", "from "+fromText(c.Ranges)); err != nil {
			return err
		}
	}
	if len(cells) == 0 {
		_, err := fmt.Fprintln(w, "Nobody but super users may do anything.")
		return err
	}
	return nil
}

const matrixPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Who may do what, from where</title>
<style>body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}th,td{border:1px solid #bbb;padding:.3em .6em;text-align:left;vertical-align:top}
.none td{color:#777}</style></head><body>
<h1>Who may do what, from where</h1><p>Rules of {{.From}}</p>
<table><tr><th>Principal</th><th>Resource</th><th>Allowed</th><th>From</th></tr>
{{range .Rows}}<tr{{if not .Allowed}} class="none"{{end}}><td>{{shown .Principal}}</td><td>{{.ResourceType}} {{if .StandsFor}}{{shown .StandsFor}} (any other){{else}}{{shown .ResourceName}}{{end}}</td>` +
	`<td>{{range .Allowed}}{{.}} {{else}}nothing{{end}}</td><td>{{range .From}}{{.}}<br>{{end}}</td></tr>
{{end}}</table></body></html>
`

func printMatrixPage(w io.Writer, from string, rows []jsonCell) error {
	page, err := template.New("matrix").Funcs(template.FuncMap{"shown": shown}).Parse(matrixPage)
	if err != nil {
		return err
	}
	return page.Execute(w, struct {
		From string
		Rows []jsonCell
	}{from, rows})
}
