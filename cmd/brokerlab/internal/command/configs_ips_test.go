package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
)

// An address has one rate, in whatever spelling of Java's it is set, described and deleted.
func TestRatesOfAddressesAreFoundInEverySpelling(t *testing.T) {
	t.Parallel()
	server := admintest.Real(t, []string{"listeners=PLAINTEXT://127.0.0.1:0"}).Addr("PLAINTEXT").String()
	for _, c := range []struct{ args, out, err string }{
		{"--alter --entity-type ips --entity-name [::1] --add-config connection_creation_rate=7", "Completed updating config for ip [::1].", ""},
		{"--alter --ip 127.1 --add-config connection_creation_rate=8", "Completed updating config for ip 127.1.", ""},
		{"--alter --ip-defaults --add-config connection_creation_rate=9", "Completed updating default config for ips in the cluster.", ""},
		{
			"--describe --entity-type ips",
			"Quota configs for ip '127.0.0.1' are connection_creation_rate=8.0\nQuota configs for ip '::1' are connection_creation_rate=7.0\n" +
				"Quota configs for the default ip are connection_creation_rate=9.0", "",
		},
		{"--describe --ip 0:0:0:0:0:0:0:1", "Quota configs for ip '::1' are connection_creation_rate=7.0", ""},
		{"--alter --ip 0:0:0:0:0:0:0:1 --delete-config connection_creation_rate", "Completed updating config for ip 0:0:0:0:0:0:0:1.", ""},
		{"--describe --ip ::1", "", ""},
		{"--describe --ip 1.2.3.4.5", "", "The entity name for ips must be a valid IP or resolvable host, but it is: 1.2.3.4.5"},
		{"--describe --ip [::g]", "", "The entity name for ips must be a valid IP or resolvable host, but it is: [::g]"},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"brokerlab", "configs", "--bootstrap-server", server}, strings.Fields(c.args)...)
		Run(t.Context(), args, Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr})
		if got := strings.TrimSpace(stdout.String()); got != c.out {
			t.Errorf("configs %s prints\n%s\nwant\n%s", c.args, got, c.out)
		}
		if got := strings.TrimSpace(stderr.String()); !strings.Contains(got, c.err) || c.err == "" && got != "" {
			t.Errorf("configs %s says %q, want %q", c.args, got, c.err)
		}
	}
}
