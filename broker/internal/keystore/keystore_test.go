package keystore_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/broker/internal/keystore"
)

const password = "changeit"

func file(name string) string { return filepath.Join("testdata", name) }

func text(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(file(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// oneLine is a PEM text as it comes out of a properties file with continued lines.
func oneLine(pem string) string { return strings.ReplaceAll(strings.TrimSpace(pem), "\n", " ") }

func trust(t *testing.T) *x509.CertPool {
	t.Helper()
	pool, err := keystore.LoadTrust(keystore.Store{Type: "PEM", Location: file("ca.pem")})
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func TestEveryKindOfKeyStoreLoads(t *testing.T) {
	t.Parallel()
	for what, s := range map[string]keystore.Store{
		"JKS":                         {Type: "JKS", Location: file("server.jks"), Password: password},
		"JKS by default":              {Location: file("server.jks"), Password: password},
		"JKS that is PKCS12":          {Type: "JKS", Location: file("server.p12"), Password: password},
		"JKS with a key password":     {Type: "jks", Location: file("keypass.jks"), Password: password, KeyPassword: "secret2"},
		"PKCS12":                      {Type: "PKCS12", Location: file("server.p12"), Password: password},
		"PKCS12 that is JKS":          {Type: "PKCS12", Location: file("server.jks"), Password: password},
		"PKCS12 and its key password": {Type: "pkcs12", Location: file("server.p12"), Password: password, KeyPassword: password},
		"PKCS12 with another entry":   {Type: "PKCS12", Location: file("mixed.p12"), Password: password},
		"PKCS12 of openssl":           {Type: "PKCS12", Location: file("openssl.p12"), Password: password},
		"PKCS12 of openssl -legacy":   {Type: "PKCS12", Location: file("openssl-legacy.p12"), Password: password},
		"PEM file":                    {Type: "PEM", Location: file("server.pem")},
		"encrypted PEM file":          {Type: "PEM", Location: file("server-encrypted.pem"), KeyPassword: "secret2"},
		"inline PEM":                  {Type: "PEM", Key: text(t, "key.pem"), Chain: text(t, "chain.pem")},
		"inline PEM on one line":      {Type: "PEM", Key: oneLine(text(t, "key.pem")), Chain: oneLine(text(t, "chain.pem"))},
		"inline encrypted PEM":        {Type: "PEM", Key: oneLine(text(t, "key-encrypted.pem")), Chain: text(t, "chain.pem"), KeyPassword: "secret2"},
		"inline PKCS#1":               {Type: "PEM", Key: text(t, "key-pkcs1.pem"), Chain: text(t, "chain.pem")},
	} {
		c, err := keystore.LoadIdentity(s)
		if err != nil {
			t.Errorf("%s: LoadIdentity = %v", what, err)
			continue
		}
		if got, want := keystore.DistinguishedName(c.Leaf), `CN=localhost,OU=Eng\, Ops,O=brokerlab`; got != want || len(c.Certificate) != 2 {
			t.Errorf("%s: LoadIdentity = %d certificates, first of %s, want 2, %s", what, len(c.Certificate), got, want)
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: trust(t), DNSName: "localhost"}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if c, err := keystore.LoadIdentity(keystore.Store{Type: "PEM", Location: file("client.pem")}); err != nil || keystore.DistinguishedName(c.Leaf) != "CN=alice,O=brokerlab" {
		t.Errorf("EC PRIVATE KEY: LoadIdentity = %v", err)
	}
}

func TestEveryKindOfTrustStoreLoads(t *testing.T) {
	t.Parallel()
	for what, s := range map[string]keystore.Store{
		"JKS":                    {Type: "JKS", Location: file("trust.jks"), Password: password},
		"JKS by default":         {Location: file("trust.jks"), Password: password},
		"PKCS12":                 {Type: "PKCS12", Location: file("trust.p12"), Password: password},
		"JKS that is PKCS12":     {Type: "JKS", Location: file("trust.p12"), Password: password},
		"PEM":                    {Type: "PEM", Location: file("ca.pem")},
		"inline PEM":             {Type: "PEM", Certificates: text(t, "ca.pem")},
		"inline PEM on one line": {Type: "PEM", Certificates: oneLine(text(t, "chain.pem"))},
	} {
		pool, err := keystore.LoadTrust(s)
		if err != nil {
			t.Errorf("%s: LoadTrust = %v", what, err)
			continue
		}
		c, err := keystore.LoadIdentity(keystore.Store{Type: "PEM", Location: file("client.pem")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if pool, err := keystore.LoadTrust(keystore.Store{Type: "JKS"}); pool != nil || err != nil {
		t.Errorf("LoadTrust of nothing = %v, %v, want nil, nil", pool, err)
	}
}

func TestErrorsNamePropertyFileAndReason(t *testing.T) {
	t.Parallel()
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		store keystore.Store
		want  []string
	}{
		{"nothing", keystore.Store{}, []string{"ssl.keystore.location: ", "needed"}},
		{"no password", keystore.Store{Location: file("server.jks")}, []string{"ssl.keystore.location: ", "ssl.keystore.password"}},
		{"password only", keystore.Store{Password: "x"}, []string{"ssl.keystore.password: "}},
		{"no such file", keystore.Store{Location: "/nowhere/x.jks", Password: "x"}, []string{"ssl.keystore.location=/nowhere/x.jks: no such file"}},
		{"a folder", keystore.Store{Location: "testdata", Password: "x"}, []string{"ssl.keystore.location=testdata: is a directory"}},
		{"unknown type", keystore.Store{Type: "BKS", Location: garbage, Password: "x"}, []string{"ssl.keystore.type: ", "BKS", "JKS, PKCS12 or PEM"}},
		{"pem in lower case", keystore.Store{Type: "pem", Location: garbage, Password: "x"}, []string{"ssl.keystore.type: "}},
		{"garbage", keystore.Store{Location: garbage, Password: "x"}, []string{garbage, "neither JKS nor PKCS12"}},
		{"garbage as PEM", keystore.Store{Type: "PEM", Location: garbage}, []string{garbage, "no PEM block of type PRIVATE KEY"}},
		{"PEM as JKS", keystore.Store{Location: file("server.pem"), Password: "x"}, []string{"server.pem", "type to PEM"}},
		{"wrong JKS password", keystore.Store{Location: file("server.jks"), Password: "x"}, []string{"server.jks", "wrong password"}},
		{"wrong PKCS12 password", keystore.Store{Location: file("server.p12"), Password: "x"}, []string{"server.p12", "wrong password"}},
		{"wrong key password", keystore.Store{Location: file("keypass.jks"), Password: password, KeyPassword: "x"}, []string{"keypass.jks", `"server"`, "ssl.key.password"}},
		{"missing key password", keystore.Store{Location: file("keypass.jks"), Password: password}, []string{"keypass.jks", "ssl.key.password"}},
		{"another key password in PKCS12", keystore.Store{Location: file("server.p12"), Password: password, KeyPassword: "x"}, []string{"server.p12", "differs"}},
		{"trust store as key store", keystore.Store{Location: file("trust.jks"), Password: password}, []string{"trust.jks", "no private key"}},
		{"PKCS12 trust store as key store", keystore.Store{Location: file("trust.p12"), Password: password}, []string{"trust.p12", "private key missing"}},
		{"encrypted without password", keystore.Store{Type: "PEM", Location: file("server-encrypted.pem")}, []string{"server-encrypted.pem", "ssl.key.password"}},
		{"encrypted with a wrong password", keystore.Store{Type: "PEM", Location: file("server-encrypted.pem"), KeyPassword: "x"}, []string{"server-encrypted.pem", "wrong password"}},
		{"password for a plain key", keystore.Store{Type: "PEM", Location: file("server.pem"), KeyPassword: "x"}, []string{"server.pem", "not encrypted"}},
		{"old encryption", keystore.Store{Type: "PEM", Key: text(t, "key-oldstyle.pem"), Chain: text(t, "chain.pem"), KeyPassword: "secret2"}, []string{"ssl.keystore.key: ", "openssl pkcs8"}},
		{"store password for PEM", keystore.Store{Type: "PEM", Location: file("server.pem"), Password: "x"}, []string{"ssl.keystore.password: "}},
		{"inline key as JKS", keystore.Store{Key: text(t, "key.pem"), Chain: text(t, "chain.pem")}, []string{"ssl.keystore.key: ", "PEM", "JKS"}},
		{"inline key without chain", keystore.Store{Type: "PEM", Key: text(t, "key.pem")}, []string{"ssl.keystore.certificate.chain"}},
		{"inline chain without key", keystore.Store{Type: "PEM", Chain: text(t, "chain.pem")}, []string{"ssl.keystore.certificate.chain: ", "ssl.keystore.key"}},
		{"inline and file", keystore.Store{Type: "PEM", Key: "x", Chain: "x", Location: "x"}, []string{"both"}},
		{"two keys", keystore.Store{Type: "PEM", Key: text(t, "key.pem") + text(t, "key.pem"), Chain: text(t, "chain.pem")}, []string{"ssl.keystore.key: ", "2"}},
		{"chain of another key", keystore.Store{Type: "PEM", Key: text(t, "key.pem"), Chain: text(t, "ca.pem")}, []string{"ssl.keystore.certificate.chain: ", "CN=Test CA,O=brokerlab", "does not belong"}},
		{"no certificate", keystore.Store{Type: "PEM", Location: file("key.pem")}, []string{"key.pem", "CERTIFICATE"}},
	} {
		_, err := keystore.LoadIdentity(c.store)
		checkError(t, c.what, err, c.want)
	}
	for _, c := range []struct {
		what  string
		store keystore.Store
		want  []string
	}{
		{"no such file", keystore.Store{Location: "/nowhere/x.jks", Password: "x"}, []string{"ssl.truststore.location=/nowhere/x.jks: no such file"}},
		{"wrong password", keystore.Store{Location: file("trust.jks"), Password: "x"}, []string{"trust.jks", "wrong password"}},
		{"no password", keystore.Store{Location: file("trust.jks")}, []string{"trust.jks", "ssl.truststore.password"}},
		{"key store as PKCS12 trust store", keystore.Store{Location: file("server.p12"), Password: password}, []string{"server.p12"}},
		{"inline as JKS", keystore.Store{Certificates: text(t, "ca.pem")}, []string{"ssl.truststore.certificates: "}},
		{"damaged inline", keystore.Store{Type: "PEM", Certificates: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"}, []string{"ssl.truststore.certificates: certificate 1"}},
		{"password for PEM", keystore.Store{Type: "PEM", Location: file("ca.pem"), Password: "x"}, []string{"ssl.truststore.password: "}},
		{"unknown type", keystore.Store{Type: "X", Location: file("ca.pem")}, []string{"ssl.truststore.type: "}},
	} {
		_, err := keystore.LoadTrust(c.store)
		checkError(t, "trust: "+c.what, err, c.want)
	}
}

func checkError(t *testing.T, what string, err error, want []string) {
	t.Helper()
	if _, ok := errors.AsType[*keystore.Error](err); !ok {
		t.Errorf("%s: error %v is no *Error", what, err)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: error %q does not say %q", what, err, w)
		}
	}
}

// handshake connects client and server and says what each made of it.
func handshake(t *testing.T, server, client *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	done := make(chan error, 1)
	go func() {
		c, acceptErr := l.Accept()
		if acceptErr != nil {
			done <- acceptErr
			return
		}
		defer func() { _ = c.Close() }()
		s := tls.Server(c, server)
		handshakeErr := s.Handshake()
		state = s.ConnectionState()
		if handshakeErr == nil {
			_, handshakeErr = s.Write([]byte("x"))
		}
		done <- handshakeErr
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	clientTLS := tls.Client(c, client)
	if _, clientErr = io.ReadFull(clientTLS, make([]byte, 1)); clientErr == nil {
		clientErr = clientTLS.CloseWrite()
	}
	return state, <-done, clientErr
}

func serverOptions(clientAuth string) keystore.Options {
	return keystore.Options{
		Identity:   keystore.Store{Type: "PKCS12", Location: file("server.p12"), Password: password},
		Trust:      keystore.Store{Type: "JKS", Location: file("trust.jks"), Password: password},
		ClientAuth: clientAuth,
	}
}

func mustServer(t *testing.T, o keystore.Options) *tls.Config {
	t.Helper()
	c, warnings, err := keystore.ServerConfig(o)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("ServerConfig = %v, %v", warnings, err)
	}
	return c
}

func mustClient(t *testing.T, o keystore.Options) *tls.Config {
	t.Helper()
	c, warnings, err := keystore.ClientConfig(o)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("ClientConfig = %v, %v", warnings, err)
	}
	c.ServerName = "localhost"
	return c
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	ca := keystore.Store{Type: "PEM", Location: file("ca.pem")}
	alice := keystore.Store{Type: "PEM", Location: file("client.pem")}
	anonymous := mustClient(t, keystore.Options{Trust: ca, Endpoint: "https"})
	known := mustClient(t, keystore.Options{Trust: ca, Identity: alice, Endpoint: "HTTPS"})
	// A certificate that the server does not trust, sent although the server did not name its issuer.
	stranger := mustClient(t, keystore.Options{Trust: ca, Endpoint: "https"})
	foreign := selfSigned(t)
	stranger.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &foreign, nil }
	for _, c := range []struct {
		auth   string
		client *tls.Config
		want   string // subject; "-" is a failed handshake
	}{
		{"none", anonymous, ""},
		{"none", known, ""},
		{"requested", anonymous, ""},
		{"requested", known, "CN=alice,O=brokerlab"},
		{"requested", stranger, "-"},
		{"required", anonymous, "-"},
		{"required", known, "CN=alice,O=brokerlab"},
		{"required", stranger, "-"},
	} {
		state, serverErr, clientErr := handshake(t, mustServer(t, serverOptions(c.auth)), c.client)
		subject := ""
		if len(state.PeerCertificates) > 0 {
			subject = keystore.DistinguishedName(state.PeerCertificates[0])
		}
		if (serverErr != nil) != (c.want == "-") || (clientErr != nil) != (c.want == "-") || (c.want != "-" && subject != c.want) {
			t.Errorf("ssl.client.auth=%s: subject %q, server error %v, client error %v, want %q", c.auth, subject, serverErr, clientErr, c.want)
		}
	}
}

func TestClientsCheckTheServersName(t *testing.T) {
	t.Parallel()
	server := mustServer(t, serverOptions("none"))
	ca := keystore.Store{Type: "PEM", Location: file("ca.pem")}
	named := mustClient(t, keystore.Options{Trust: ca, Endpoint: "https"})
	named.ServerName = "elsewhere"
	if _, _, err := handshake(t, server, named); err == nil {
		t.Error("a client with https takes a certificate of another name")
	}
	unnamed := mustClient(t, keystore.Options{Trust: ca})
	unnamed.ServerName = "elsewhere"
	if _, _, err := handshake(t, server, unnamed); err != nil {
		t.Errorf("a client without endpoint identification: %v", err)
	}
	untrusting := mustClient(t, keystore.Options{Trust: keystore.Store{Type: "PEM", Location: file("server-cert.pem")}})
	untrusting.RootCAs = x509.NewCertPool()
	untrusting.VerifyConnection = mustClient(t, keystore.Options{Trust: keystore.Store{Type: "PEM", Certificates: foreignPEM(t)}}).VerifyConnection
	if _, _, err := handshake(t, server, untrusting); err == nil {
		t.Error("a client without endpoint identification takes a certificate of an unknown issuer")
	}
}

func TestProtocolsAndSuitesBoundTheHandshake(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what      string
		protocols []string
		suites    []string
		min, max  uint16
		warnings  int
		err       string
	}{
		{"nothing", nil, nil, tls.VersionTLS12, tls.VersionTLS13, 0, ""},
		{"both", []string{"TLSv1.2", "TLSv1.3"}, nil, tls.VersionTLS12, tls.VersionTLS13, 0, ""},
		{"1.3", []string{"TLSv1.3"}, nil, tls.VersionTLS13, tls.VersionTLS13, 0, ""},
		{"1.2", []string{"TLSv1.2"}, nil, tls.VersionTLS12, tls.VersionTLS12, 0, ""},
		{"1.1 and 1.2", []string{"TLSv1.1", "TLSv1.2"}, nil, tls.VersionTLS12, tls.VersionTLS12, 1, ""},
		{"1.1", []string{"TLSv1.1"}, nil, 0, 0, 1, "ssl.enabled.protocols: "},
		{"1.4", []string{"TLSv1.4"}, nil, 0, 0, 0, `ssl.enabled.protocols: unsupported protocol "TLSv1.4"`},
		{"a suite of 1.2", nil, []string{"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, tls.VersionTLS12, tls.VersionTLS12, 0, ""},
		{"a suite of 1.3", nil, []string{"TLS_AES_256_GCM_SHA384"}, tls.VersionTLS13, tls.VersionTLS13, 1, ""},
		{"all suites of 1.3", nil, []string{"TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"}, tls.VersionTLS13, tls.VersionTLS13, 0, ""},
		{"suites of both", nil, []string{"TLS_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, tls.VersionTLS12, tls.VersionTLS13, 1, ""},
		{"one that Go lacks", nil, []string{"TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, tls.VersionTLS12, tls.VersionTLS12, 1, ""},
		{"only one that Go lacks", nil, []string{"TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"}, 0, 0, 1, "ssl.cipher.suites: none"},
		{"a weak one by its old name", nil, []string{"SSL_RSA_WITH_3DES_EDE_CBC_SHA"}, tls.VersionTLS12, tls.VersionTLS12, 1, ""},
		{"a wrong name", nil, []string{"AES256-GCM-SHA384"}, 0, 0, 0, `ssl.cipher.suites: unsupported cipher suite "AES256-GCM-SHA384"`},
		{"suite and protocol at odds", []string{"TLSv1.2"}, []string{"TLS_AES_256_GCM_SHA384"}, 0, 0, 1, "ssl.cipher.suites: none"},
	} {
		o := serverOptions("none")
		o.EnabledProtocols, o.CipherSuites = c.protocols, c.suites
		got, warnings, err := keystore.ServerConfig(o)
		if len(warnings) != c.warnings {
			t.Errorf("%s: warnings %q, want %d", c.what, warnings, c.warnings)
		}
		if c.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %q", c.what, err, c.err)
			}
			continue
		}
		if err != nil || got.MinVersion != c.min || got.MaxVersion != c.max {
			t.Errorf("%s: versions %x-%x, error %v, want %x-%x", c.what, got.MinVersion, got.MaxVersion, err, c.min, c.max)
			continue
		}
		client := mustClient(t, keystore.Options{Trust: keystore.Store{Type: "PEM", Location: file("ca.pem")}, Endpoint: "https"})
		client.CipherSuites = got.CipherSuites
		state, _, err := handshake(t, got, client)
		if err != nil || state.Version != c.max {
			t.Errorf("%s: handshake of version %x, error %v, want %x", c.what, state.Version, err, c.max)
		}
	}
}

func TestAServerConfigReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, _, err := keystore.ServerConfig(keystore.Options{
		Identity: keystore.Store{Location: "/nowhere/a", Password: "x"}, Trust: keystore.Store{Location: "/nowhere/b", Password: "x"},
		ClientAuth: "maybe", CipherSuites: []string{"x"},
	})
	for _, want := range []string{"/nowhere/a", "/nowhere/b", "ssl.client.auth", "ssl.cipher.suites"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ServerConfig = %v, want %s named", err, want)
		}
	}
	_, _, err = keystore.ClientConfig(keystore.Options{Endpoint: "ldaps"})
	if err == nil || !strings.Contains(err.Error(), "ssl.endpoint.identification.algorithm") {
		t.Errorf("ClientConfig with ldaps = %v", err)
	}
}

// Files that a real keytool of this machine has just made.
func TestStoresOfThisMachinesKeytoolLoad(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts several JVMs")
	}
	if _, err := exec.LookPath("keytool"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	for _, kind := range [][]string{{"JKS", "-keyalg", "EC", "-groupname", "secp384r1"}, {"PKCS12", "-keyalg", "RSA", "-keysize", "2048"}, {"PKCS12", "-keyalg", "Ed25519"}} {
		path := filepath.Join(dir, strings.Join(kind, ""))
		args := append([]string{"-genkeypair", "-alias", "a", "-dname", "CN=a, O=x", "-keystore", path, "-storepass", "pass1word", "-keypass", "pass1word", "-storetype"}, kind...)
		if out, err := exec.CommandContext(t.Context(), "keytool", args...).CombinedOutput(); err != nil {
			t.Fatalf("keytool: %v\n%s", err, out)
		}
		c, err := keystore.LoadIdentity(keystore.Store{Location: path, Password: "pass1word"})
		if err != nil {
			t.Errorf("%v: %v", kind, err)
			continue
		}
		if got := keystore.DistinguishedName(c.Leaf); got != "CN=a,O=x" {
			t.Errorf("%v: subject %q, want CN=a,O=x", kind, got)
		}
	}
}

// Damaged stores are refused, never believed.
func FuzzStores(f *testing.F) {
	for _, name := range []string{"server.jks", "server.p12", "trust.jks", "trust.p12", "server.pem", "server-encrypted.pem", "openssl-legacy.p12"} {
		raw, err := os.ReadFile(file(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, strings.HasSuffix(name, ".pem"))
	}
	f.Fuzz(func(t *testing.T, content []byte, isPEM bool) {
		path := filepath.Join(t.TempDir(), "store")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := keystore.Store{Type: "JKS", Location: path, Password: password}
		if isPEM {
			s = keystore.Store{Type: "PEM", Location: path}
		}
		if c, err := keystore.LoadIdentity(s); err == nil && c.Leaf == nil {
			t.Fatal("an identity without a certificate")
		}
		_, _ = keystore.LoadTrust(s)
	})
}
