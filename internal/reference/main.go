// Command reference prints docs/requests.md from the code: which APIs are served and what each needs, from the contracts that
// open the handlers' files, and the schemas of the messages that no Kafka has, from the structs and the lists of fields that
// write and read them. Nothing is written twice, so that nothing can drift; what the code does not say is an error.
//
// It reads sources and is run in the root of the tree (scripts/docs.sh).
package main

import (
	"errors"
	"io"
	"os"
	"strings"
)

func main() {
	if err := write(os.Stdout, "."); err != nil {
		_, _ = os.Stderr.WriteString("reference: " + err.Error() + "\n")
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// write prints the reference of the tree at root.
func write(w io.Writer, root string) error {
	apis, err := readContracts(root)
	if err != nil {
		return err
	}
	messages, err := readMessages(root)
	if err != nil {
		return err
	}
	page := &strings.Builder{}
	writeTables(page, apis)
	for i := range apis {
		if apis[i].ours() {
			err = errors.Join(err, messages.describe(page, &apis[i]))
		}
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, page.String())
	return err
}
