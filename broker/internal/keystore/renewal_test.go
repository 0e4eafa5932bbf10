package keystore_test

import (
	"crypto/x509"
	"net"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/broker/internal/keystore"
)

func TestARenewedCertificateKeepsItsNames(t *testing.T) {
	t.Parallel()
	subject := func(name string) []byte {
		return append([]byte{0x30, byte(11 + len(name)), 0x31, byte(9 + len(name)), 0x30, byte(7 + len(name)), 6, 3, 0x55, 4, 3, 0x0c, byte(len(name))}, name...)
	}
	cert := func(name string, dns ...string) *x509.Certificate {
		return &x509.Certificate{RawSubject: subject(name), DNSNames: dns, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	}
	existing := cert("kafka", "a", "b")
	for _, c := range []struct {
		next    *x509.Certificate
		dn, san bool
		want    string
	}{
		{cert("kafka", "a", "b"), false, false, ""},
		{cert("KAFKA", "b", "a", "c"), false, false, ""},
		{cert("other", "a", "b"), false, true, "Keystore DistinguishedName does not match:  existing={alias=kafka, DN=CN=kafka}, new={alias=kafka, DN=CN=other}"},
		{cert("other", "a", "b"), true, false, ""},
		{cert("kafka", "a"), true, false, "Keystore SubjectAltNames do not match:  existing={alias=kafka, SAN=[[2, a], [2, b], [7, 127.0.0.1]]}, new={alias=kafka, SAN=[[2, a], [7, 127.0.0.1]]}"},
		{cert("kafka"), false, true, ""},
	} {
		got := ""
		if err := keystore.CheckRenewal(existing, c.next, c.dn, c.san); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("CheckRenewal to %s %v = %q, want %q", keystore.DistinguishedName(c.next), c.next.DNSNames, got, c.want)
		}
	}
}
