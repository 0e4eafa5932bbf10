package network

import (
	"net/netip"
	"testing"
)

func TestJavaAddrPrintsWhatGetHostAddressPrints(t *testing.T) {
	f := func(addr, want string) {
		t.Helper()
		if got := JavaAddr(netip.MustParseAddr(addr)); got != want {
			t.Errorf("JavaAddr(%s) = %q, want %q", addr, got, want)
		}
	}
	f("10.0.0.5", "10.0.0.5")
	f("::ffff:10.0.0.5", "10.0.0.5")
	f("::1", "0:0:0:0:0:0:0:1")
	f("::", "0:0:0:0:0:0:0:0")
	f("2001:db8::ab:0:1", "2001:db8:0:0:0:ab:0:1")
	f("fe80::1%4", "fe80:0:0:0:0:0:0:1%4")
	if got := JavaAddr(netip.Addr{}); got != "" {
		t.Errorf("JavaAddr(zero) = %q, want nothing", got)
	}
}

func TestConnectionIDIsLocalFirst(t *testing.T) {
	f := func(local, remote string, processor, index int32, want string) {
		t.Helper()
		if got := connectionID(netip.MustParseAddrPort(local), netip.MustParseAddrPort(remote), processor, index); got != want {
			t.Errorf("connectionID(%s, %s, %d, %d) = %q, want %q", local, remote, processor, index, got, want)
		}
	}
	f("10.0.0.1:9092", "10.0.0.5:54321", 0, 7, "10.0.0.1:9092-10.0.0.5:54321-0-7")
	f("[::1]:9092", "[::1]:45272", 2, 1, "0:0:0:0:0:0:0:1:9092-0:0:0:0:0:0:0:1:45272-2-1")
}
