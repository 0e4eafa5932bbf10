package keystore_test

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/brokerlab/brokerlab/broker/internal/keystore"
)

func TestDistinguishedNamesAreThoseOfJava(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/names.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ DER, Name string }
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		der, err := hex.DecodeString(c.DER)
		if err != nil {
			t.Fatal(err)
		}
		if got := keystore.DistinguishedName(&x509.Certificate{RawSubject: der}); got != c.Name {
			t.Errorf("DistinguishedName(%s) = %q, want %q", c.DER, got, c.Name)
		}
	}
}

// Whatever a certificate claims as its subject, naming it does not panic.
func FuzzDistinguishedName(f *testing.F) {
	f.Add([]byte{0x30, 0})
	f.Add([]byte("\x30\x10\x31\x0e\x30\x0c\x06\x03\x55\x04\x03\x0c\x05Alice"))
	f.Fuzz(func(_ *testing.T, der []byte) {
		keystore.DistinguishedName(&x509.Certificate{RawSubject: der})
	})
}
