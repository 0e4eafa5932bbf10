package broker_test

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/internal/sasl"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

func list(r *raw, principal, address, listener *string) *protocol.ListClientConnectionsResponse {
	r.t.Helper()
	req := protocol.NewPtrListClientConnectionsRequest()
	req.PrincipalFilter, req.ClientAddressFilter, req.ListenerFilter = principal, address, listener
	return ask[*protocol.ListClientConnectionsResponse](r, req)
}

func local(r *raw) netip.AddrPort { return r.conn.LocalAddr().(*net.TCPAddr).AddrPort() }

// find is the row of a client's connection.
func find(rows []protocol.ListClientConnectionsResponseConnection, r *raw) *protocol.ListClientConnectionsResponseConnection {
	for i := range rows {
		if rows[i].ClientPort == int32(local(r).Port()) {
			return &rows[i]
		}
	}
	return nil
}

// overTLS makes r speak TLS.
func overTLS(t *testing.T, r *raw, config *tls.Config) *raw {
	t.Helper()
	config.ServerName = "localhost"
	c := tls.Client(r.conn, config)
	if err := c.HandshakeContext(t.Context()); err != nil {
		t.Fatalf("handshake: %v", err)
	}
	return &raw{t, c}
}

func TestTheListShowsConnectionsInEveryStateOfBecomingSomebody(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	cfg := fourProtocols(t, p)
	for i := range cfg.Listeners {
		if l := &cfg.Listeners[i]; l.Name == "SSL_V6" {
			var err error
			if l.Principals, err = sasl.ParseRules("RULE:^CN=nobody-has-this$/x/"); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := start(t, cfg)
	began := time.Now()
	me := dial(t, b.Addr("PLAINTEXT_V4"))
	ask[*kmsg.ApiVersionsResponse](me, versionsRequest(3))

	silent := dial(t, b.Addr("PLAINTEXT_V6"))
	handshaking := dial(t, b.Addr("SSL_V4"))
	unmappable := overTLS(t, dial(t, b.Addr("SSL_V6")), p.client(t, pkix.Name{CommonName: "stranger"}))
	mapped := overTLS(t, dial(t, b.Addr("SSL_V4")), p.client(t, pkix.Name{CommonName: "bob", OrganizationalUnit: []string{"apps"}}))
	halfway := dial(t, b.Addr("SASL_PLAINTEXT_V4"))
	ask[*kmsg.ApiVersionsResponse](halfway, versionsRequest(3))
	ask[*kmsg.SASLHandshakeResponse](halfway, handshake("SCRAM-SHA-256"))

	want := map[*raw][3]string{
		me:          {"User:ANONYMOUS", "PLAINTEXT_V4", "raw-test"},
		silent:      {"User:ANONYMOUS", "PLAINTEXT_V6", ""},
		handshaking: {"User:ANONYMOUS", "SSL_V4", ""},
		unmappable:  {"", "SSL_V6", ""},
		mapped:      {"User:bob", "SSL_V4", ""},
		halfway:     {"", "SASL_PLAINTEXT_V4", "raw-test"},
	}
	var rows []protocol.ListClientConnectionsResponseConnection
	eventually(t, "all six connections are listed as they should be", func() bool {
		resp := list(me, nil, nil, nil)
		rows = resp.Connections
		for r, w := range want {
			row := find(rows, r)
			if row == nil || [3]string{row.Principal, row.ListenerName, row.SoftwareName} != w {
				return false
			}
		}
		return resp.ErrorCode == 0 && len(rows) == len(want)
	})
	for r := range want {
		row := find(rows, r)
		if since := time.UnixMilli(row.ConnectedSince); since.Before(began.Add(-time.Second)) || since.After(time.Now().Add(time.Second)) {
			t.Errorf("%s is connected since %v, want about %v", row.ConnectionID, since, began)
		}
		remote := strings.ReplaceAll(local(r).Addr().String(), "::1", "0:0:0:0:0:0:0:1")
		if row.ClientAddress != remote || !strings.Contains(row.ConnectionID, "-"+remote+":") || strings.Count(row.ConnectionID, "-") != 3 {
			t.Errorf("row %+v: want client address %s, also in the connection id", row, remote)
		}
	}
	if row := find(rows, silent); row.SecurityProtocol != "PLAINTEXT" || row.PrincipalType != "User" {
		t.Errorf("row %+v, want PLAINTEXT and User", row)
	}

	// A principal that cannot be mapped ends the connection at its first request.
	unmappable.request(versionsRequest(3))
	unmappable.closed("the first request of a certificate that no rule maps")
	silent.close()
	eventually(t, "rows vanish with their connections", func() bool {
		rows := list(me, nil, nil, nil).Connections
		return len(rows) == len(want)-2 && find(rows, silent) == nil && find(rows, unmappable) == nil
	})
}

func TestFiltersOfTheListAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	b := start(t, fourProtocols(t, newPKI(t)))
	v4, v6 := dial(t, b.Addr("PLAINTEXT_V4")), dial(t, b.Addr("PLAINTEXT_V6"))
	alice := dial(t, b.Addr("SASL_PLAINTEXT_V4"))
	ask[*kmsg.SASLHandshakeResponse](alice, handshake("PLAIN"))
	ask[*kmsg.SASLAuthenticateResponse](alice, token("\x00alice\x00alice-secret"))
	halfway := dial(t, b.Addr("SASL_PLAINTEXT_V6"))
	ask[*kmsg.SASLHandshakeResponse](halfway, handshake("PLAIN"))
	eventually(t, "four connections", func() bool { return len(list(v4, nil, nil, nil).Connections) == 4 })

	text := func(s string) *string { return &s }
	for what, c := range map[string]struct {
		principal, address, listener *string
		want                         []*raw
	}{
		"no filter":             {want: []*raw{v4, v6, alice, halfway}},
		"a principal":           {principal: text("User:alice"), want: []*raw{alice}},
		"a bare name":           {principal: text("alice")},
		"another case":          {principal: text("user:alice")},
		"nobody yet":            {principal: text(""), want: []*raw{halfway}},
		"an address":            {address: text("127.0.0.1"), want: []*raw{v4, alice}},
		"a mapped address":      {address: text("::ffff:127.0.0.1"), want: []*raw{v4, alice}},
		"a short IPv6 address":  {address: text("::1"), want: []*raw{v6, halfway}},
		"a long IPv6 address":   {address: text("0:0:0:0:0:0:0:1"), want: []*raw{v6, halfway}},
		"no address":            {address: text("localhost")},
		"an empty address":      {address: text("")},
		"a prefix":              {address: text("127.0.0.0/8")},
		"a listener":            {listener: text("PLAINTEXT_V4"), want: []*raw{v4}},
		"a listener, lower":     {listener: text("sasl_plaintext_v4"), want: []*raw{alice}},
		"an unknown listener":   {listener: text("NOPE")},
		"an empty listener":     {listener: text("")},
		"all three":             {text("User:alice"), text("127.0.0.1"), text("SASL_PLAINTEXT_V4"), []*raw{alice}},
		"three that do not fit": {text("User:alice"), text("::1"), text("SASL_PLAINTEXT_V4"), nil},
	} {
		resp := list(v4, c.principal, c.address, c.listener)
		ports, want := []int32{}, []int32{}
		for _, row := range resp.Connections {
			ports = append(ports, row.ClientPort)
		}
		for _, r := range c.want {
			want = append(want, int32(local(r).Port()))
		}
		slices.Sort(ports)
		slices.Sort(want)
		if resp.ErrorCode != 0 || !slices.Equal(ports, want) {
			t.Errorf("%s: error %d, ports %v, want %v", what, resp.ErrorCode, ports, want)
		}
	}
}

func TestReauthenticationKeepsThePrincipalOfTheSessionBefore(t *testing.T) {
	t.Parallel()
	cfg := saslConfig()
	cfg.Listeners[0].MaxReauth = map[string]time.Duration{"PLAIN": time.Hour}
	cfg.Listeners = append(cfg.Listeners, broker.ListenerConfig{Name: "PLAINTEXT", Protocol: broker.Plaintext, Host: "127.0.0.1", Threads: 1})
	b := start(t, cfg)
	me := dial(t, b.Addr("PLAINTEXT"))
	alice := dial(t, b.Addr("SASL"))
	ask[*kmsg.SASLHandshakeResponse](alice, handshake("PLAIN"))
	first := ask[*kmsg.SASLAuthenticateResponse](alice, token("\x00alice\x00alice-secret"))
	if first.SessionLifetimeMillis != time.Hour.Milliseconds() {
		t.Errorf("session lifetime = %d ms, want an hour", first.SessionLifetimeMillis)
	}
	state := func() (principal, state string) {
		for _, row := range describe(me, nil).Connections {
			if row.ClientPort == int32(local(alice).Port()) {
				return row.Principal, row.State
			}
		}
		return "", "not listed"
	}
	if p, s := state(); p != "User:alice" || s != protocol.StateOpen {
		t.Errorf("authenticated: %s, %s", p, s)
	}
	ask[*kmsg.SASLHandshakeResponse](alice, handshake("PLAIN"))
	if p, s := state(); p != "User:alice" || s != protocol.StateReauthenticating {
		t.Errorf("during re-authentication: %s, %s, want User:alice, reauthenticating", p, s)
	}
	if resp := ask[*kmsg.SASLAuthenticateResponse](alice, token("\x00alice\x00alice-secret")); resp.ErrorCode != 0 {
		t.Errorf("re-authentication = %+v", resp)
	}
	if p, s := state(); p != "User:alice" || s != protocol.StateOpen {
		t.Errorf("afterwards: %s, %s", p, s)
	}
}

func describe(r *raw, change func(*protocol.DescribeConnectionsRequest)) *protocol.DescribeConnectionsResponse {
	r.t.Helper()
	req := protocol.NewPtrDescribeConnectionsRequest()
	if change != nil {
		change(req)
	}
	return ask[*protocol.DescribeConnectionsResponse](r, req)
}

func TestPagesOfTheRichListMeetEveryConnectionOnce(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	me := dial(t, b.Addr("PLAINTEXT"))
	open := []*raw{me}
	for range 24 {
		open = append(open, dial(t, b.Addr("PLAINTEXT")))
	}
	eventually(t, "all connections are listed", func() bool { return describe(me, nil).Total == int64(len(open)) })
	seen := map[int32]int{}
	var cursor []byte
	for pages := 1; ; pages++ {
		page := describe(me, func(q *protocol.DescribeConnectionsRequest) { q.PageSize, q.Cursor = 7, cursor })
		if page.ErrorCode != 0 || len(page.Connections) > 7 || page.NodeID != 1 || page.Total != int64(len(open)) {
			t.Fatalf("page %d = %+v", pages, page)
		}
		for _, c := range page.Connections {
			seen[c.ClientPort]++
		}
		if cursor = page.NextCursor; cursor == nil {
			if pages != 4 {
				t.Errorf("%d pages, want 4", pages)
			}
			break
		}
	}
	for _, r := range open {
		if n := seen[int32(local(r).Port())]; n != 1 {
			t.Errorf("%v was listed %d times, want once", local(r), n)
		}
	}
	bad := describe(me, func(q *protocol.DescribeConnectionsRequest) { q.Cursor = []byte("made up") })
	if bad.ErrorCode != 42 || bad.ErrorMessage == nil {
		t.Errorf("a made-up cursor = %+v, want 42 with a reason", bad)
	}
	other := describe(me, func(q *protocol.DescribeConnectionsRequest) {
		q.Cursor = protocol.Cursor{Incarnation: 1, Slot: 2}.AppendTo(nil)
	})
	if other.ErrorCode != 42 {
		t.Errorf("a cursor of another run = error %d, want 42", other.ErrorCode)
	}
	text := func(s string) *string { return &s }
	for what, c := range map[string]struct {
		change func(*protocol.DescribeConnectionsRequest)
		code   int16
		want   int
	}{
		"a prefix":            {func(q *protocol.DescribeConnectionsRequest) { q.AddressFilter = text("127.0.0.0/8") }, 0, 25},
		"another prefix":      {func(q *protocol.DescribeConnectionsRequest) { q.AddressFilter = text("10.0.0.0/8") }, 0, 0},
		"not an address":      {func(q *protocol.DescribeConnectionsRequest) { q.AddressFilter = text("here") }, 42, 0},
		"a protocol":          {func(q *protocol.DescribeConnectionsRequest) { q.ProtocolFilter = text("plaintext") }, 0, 25},
		"another protocol":    {func(q *protocol.DescribeConnectionsRequest) { q.ProtocolFilter = text("SSL") }, 0, 0},
		"a software":          {func(q *protocol.DescribeConnectionsRequest) { q.SoftwareFilter = text("nobody's") }, 0, 0},
		"unnamed software":    {func(q *protocol.DescribeConnectionsRequest) { q.SoftwareFilter = text("") }, 0, 25},
		"an anonymous client": {func(q *protocol.DescribeConnectionsRequest) { q.PrincipalFilter = text("User:ANONYMOUS") }, 0, 25},
	} {
		if resp := describe(me, c.change); resp.ErrorCode != c.code || len(resp.Connections) != c.want {
			t.Errorf("%s: error %d and %d rows, want %d and %d", what, resp.ErrorCode, len(resp.Connections), c.code, c.want)
		}
	}
}

func TestTheRichListKnowsWhatTheHandshakesSaid(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	b := start(t, fourProtocols(t, p))
	bob := overTLS(t, dial(t, b.Addr("SASL_SSL_V4")), p.client(t, pkix.Name{CommonName: "bob"}))
	ask[*kmsg.ApiVersionsResponse](bob, versionsRequest(3))
	ask[*kmsg.SASLHandshakeResponse](bob, handshake("PLAIN"))
	ask[*kmsg.SASLAuthenticateResponse](bob, token("\x00alice\x00alice-secret"))
	resp := describe(bob, nil)
	if len(resp.Connections) != 1 {
		t.Fatalf("DescribeConnections = %+v, want one row", resp)
	}
	row := resp.Connections[0]
	switch {
	case row.TLS == nil || row.TLS.ProtocolVersion != "TLSv1.3" || row.TLS.PeerSubject != "CN=bob" || row.TLS.ServerName != "localhost" || row.TLS.PeerNotAfter == 0:
		t.Errorf("TLS = %+v", row.TLS)
	case row.SASL == nil || row.SASL.Mechanism != "PLAIN" || row.SASL.AuthenticatedSince < row.ConnectedSince:
		t.Errorf("SASL = %+v", row.SASL)
	case row.Principal != "User:alice" || row.State != protocol.StateOpen || row.BytesIn == 0 || row.BytesOut == 0 || row.SocketCookie == 0:
		t.Errorf("row = %+v", row)
	case resp.KernelSource != "off" || resp.KernelWhy == "":
		t.Errorf("kernel source = %q, %q, want off and why", resp.KernelSource, resp.KernelWhy)
	}
}

func TestOurOwnRequestsCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.APIsEnabled, cfg.ListClientConnectionsKey = false, 4242
	b := start(t, cfg)
	r := dial(t, b.Addr("PLAINTEXT"))
	have := []int16{}
	for _, k := range ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3)).ApiKeys {
		have = append(have, k.ApiKey)
	}
	if !slices.Contains(have, 4242) || slices.Contains(have, 93) || slices.ContainsFunc(have, func(key int16) bool { return key > 10_000 }) {
		t.Errorf("served keys = %v, want 4242 and neither 93 nor 10001 and up", have)
	}
	req := protocol.NewPtrListClientConnectionsRequest()
	req.SetKey(4242)
	if resp := ask[*protocol.ListClientConnectionsResponse](r, req); len(resp.Connections) != 1 {
		t.Errorf("ListClientConnections at 4242 = %+v, want one row", resp)
	}
	r.request(protocol.NewPtrDescribeConnectionsRequest())
	r.closed("a request that is turned off")
}
