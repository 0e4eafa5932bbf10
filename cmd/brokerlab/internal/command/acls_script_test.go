package command

import (
	"bytes"
	"strings"
	"testing"
)

func TestACLCommandLinesThatKafkaRefusesAreRefusedWithItsText(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--list":             "One of --bootstrap-server or --bootstrap-controller must be specified",
		"-s":                 "Command must include exactly one action: --list, --add, --remove. ",
		"-s --add":           "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or --delegation-token <Delegation Token ID>",
		"-s --add --topic t": "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.",
		"-s --add --topic t --resource-pattern-type match":           "A '--resource-pattern-type' value of 'MATCH' is not valid when adding acls.",
		"-s --list --producer":                                       `Option "[list]" can't be used with option "[producer]"`,
		"-s --add --producer":                                        "With --producer you must specify a --topic",
		"-s --add --idempotent --topic t":                            "The --idempotent option is only available if --producer is set",
		"-s --remove --principal User:a":                             "The --principal option is only available if --list is set",
		"-s --bootstrap-controller localhost:1 --list":               "Only one of --bootstrap-server or --bootstrap-controller must be specified",
		"-s --add --group g --operation Write --allow-principal U:a": "ResourceType GROUP only supports operations [",
	} {
		var stdout, stderr bytes.Buffer
		line := strings.Fields(strings.Replace(args, "-s", "--bootstrap-server localhost:1", 1))
		code := Run(t.Context(), append([]string{"kafka-acls.sh"}, line...), Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr})
		if code != 1 || !strings.Contains(stderr.String(), want) || stdout.Len() > 0 {
			t.Errorf("kafka-acls.sh %s = %d, stderr %q, stdout %q, want 1 and %q", args, code, &stderr, &stdout, want)
		}
	}
}
