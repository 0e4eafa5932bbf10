package command

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/aclfile"
)

// exportOptions are the flags of brokerlab acls export.
type exportOptions struct {
	aclSource

	to     string
	output string
}

func newACLsExport(env Env) *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export --to FORMAT",
		Short: "Write the rules of a cluster or of files in another format",
		Long: `Write the rules of a cluster, or of files, as a kafka-acls.sh list, as KafkaUser resources for Strimzi, as a CSV file for
kafka-security-manager, as Terraform state of the provider Mongey/kafka, or as JSON lines. Each rule is kept byte for byte, its host
above all; what the format cannot express is refused, and then nothing is written. The same rule twice becomes one.

Needs DESCRIBE on the cluster, if it is asked. Exit status: 0 written, 1 a rule cannot be kept, 2 the rules cannot be read.`,
		Example: `  brokerlab acls export --acls examples/acls/acls.txt --to jsonl
  brokerlab acls export --acls examples/acls/acls.txt --to ksm-csv --output /tmp/acls.csv
  brokerlab acls export --bootstrap-server localhost:9092 --to terraform`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), env) },
	}
	addACLSource(c, &o.aclSource)
	addACLFormat(c, &o.to, "to", "what to write")
	c.Flags().StringVarP(&o.output, "output", "o", "", "write this `file` instead of standard output")
	return c
}

func (o *exportOptions) run(ctx context.Context, env Env) error {
	var to aclfile.Format
	var err error
	switch {
	case o.to != "":
		to, err = aclfile.ParseFormat(o.to)
	case o.output != "":
		to, err = aclfile.Detect(o.output, nil)
	default:
		return usage("say what to write: --to format")
	}
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	loaded, err := o.load(ctx, env)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	err = aclfile.Write(&text, to, unique(loaded.rules))
	if err != nil {
		return err
	}
	if o.output == "" {
		_, err = io.Copy(env.Stdout, &text)
		return err
	}
	return writeWhole(o.output, text.Bytes())
}

// unique leaves the first of equal rules, in their order.
func unique(rules []acl.Binding) []acl.Binding {
	seen := make(map[acl.Binding]struct{}, len(rules))
	return slices.DeleteFunc(slices.Clone(rules), func(b acl.Binding) bool {
		_, twice := seen[b]
		seen[b] = struct{}{}
		return twice
	})
}

// writeWhole replaces a file by a new one at once.
func writeWhole(path string, text []byte) error {
	const readable = 0o644
	file, err := os.CreateTemp(filepath.Dir(path), ".acls-*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Chmod(readable)
	}
	if e := file.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // it is of no use
	}
	return err
}
