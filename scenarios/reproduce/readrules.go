package reproduce

import (
	"bufio"
	"fmt"
	"os"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/aclfile"
)

// ReadRules reads a file of rules in any format of [aclfile], which it detects.
func ReadRules(path string) ([]acl.Binding, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	defer file.Close()  //nolint:errcheck // it is only read
	const enough = 4096 // to know a format by
	in := bufio.NewReaderSize(file, enough)
	head, _ := in.Peek(enough) // shorter at the end, and Read has any error
	format, err := aclfile.Detect(path, head)
	if err != nil {
		return nil, err
	}
	entries, err := aclfile.Read(in, path, format)
	if err != nil {
		return nil, err
	}
	rules := make([]acl.Binding, len(entries))
	for i, e := range entries {
		rules[i] = e.Binding
	}
	return rules, nil
}
