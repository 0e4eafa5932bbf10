package inetaddress_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/broker/internal/inetaddress"
)

func TestLiteralsAreReadAsJavaReadsThem(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"": "127.0.0.1", "127.0.0.1": "127.0.0.1", "127.1": "127.0.0.1", "127.0.1": "127.0.0.1", "2130706434": "127.0.0.2", "10.1.258": "10.1.1.2",
		"0": "0.0.0.0", "4294967295": "255.255.255.255", "010.1.1.1": "10.1.1.1",
		"::1": "::1", "[::1]": "::1", "0:0:0:0:0:0:0:1": "::1", "2001:DB8::1": "2001:db8::1", "::ffff:10.0.0.1": "10.0.0.1", "fe80::1%2": "fe80::1",
	} {
		got, ok := inetaddress.Parse(host)
		if !ok || got != netip.MustParseAddr(want) {
			t.Errorf("Parse(%q) = %v, %v, want %s", host, got, ok, want)
		}
	}
	for _, host := range []string{
		"*", " 127.0.0.2", "127.0.0.0/8", "256.1.1.1", "1.2.3.256", "1.2.3.4.5", "1..2", "1.2.", ".1", "4294967296", "0x7f.1", "localhost", "::1::", "[::1", "::1]", "+1",
	} {
		if got, ok := inetaddress.Parse(host); ok {
			t.Errorf("Parse(%q) = %v, want none", host, got)
		}
	}
}

func TestNamesAreLookedUp(t *testing.T) {
	t.Parallel()
	got, err := inetaddress.Resolve(t.Context(), "localhost")
	if err != nil || !got.IsLoopback() {
		t.Errorf("Resolve(localhost) = %v, %v, want the loopback", got, err)
	}
	for _, host := range []string{"no-such-host.invalid", "*", "127.0.0.0/8", "[::1", " 127.0.0.2"} {
		got, err := inetaddress.Resolve(t.Context(), host)
		if !errors.Is(err, inetaddress.ErrUnknownHost) || !strings.Contains(err.Error(), host) {
			t.Errorf("Resolve(%q) = %v, %v, want ErrUnknownHost that names it", host, got, err)
		}
	}
}
