package keystore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Options is what the ssl.* properties of one listener, or of a client, say.
type Options struct {
	Identity Store
	Trust    Store
	// EnabledProtocols are Java's names; none is TLSv1.2 and TLSv1.3.
	EnabledProtocols []string
	// CipherSuites are Java's names; none is Go's choice.
	CipherSuites []string
	// ClientAuth is none, requested or required; "" is none.
	ClientAuth string
	// Endpoint is a client's ssl.endpoint.identification.algorithm: https, in
	// any case, or "" for a server whose name is not to be checked.
	Endpoint string
}

// ServerConfig makes a listener's TLS configuration. Session tickets are on and
// curves are Go's choice. Warnings name what Go cannot do as asked. The error
// joins all problems, each an [*Error].
func ServerConfig(o Options) (c *tls.Config, warnings []string, err error) {
	c = &tls.Config{}
	var problems []error
	note := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	id, err := LoadIdentity(o.Identity)
	note(err)
	c.Certificates = []tls.Certificate{id}
	c.ClientCAs, err = LoadTrust(o.Trust)
	note(err)
	switch o.ClientAuth {
	case "", "none":
		c.ClientAuth = tls.NoClientCert
	case "requested":
		c.ClientAuth = tls.VerifyClientCertIfGiven
	case "required":
		c.ClientAuth = tls.RequireAndVerifyClientCert
	default:
		note(problem("ssl.client.auth", "%q is not one of none, requested, required", o.ClientAuth))
	}
	warnings, err = o.versionsAndSuites(c)
	note(err)
	if len(problems) > 0 {
		return nil, warnings, errors.Join(problems...)
	}
	return c, warnings, nil
}

// ClientConfig makes a client's TLS configuration; whoever dials sets its
// ServerName. The error joins all problems, each an [*Error].
func ClientConfig(o Options) (c *tls.Config, warnings []string, err error) {
	c = &tls.Config{}
	var problems []error
	note := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	if o.Identity != (Store{}) && o.Identity != (Store{Type: o.Identity.Type}) {
		id, loadErr := LoadIdentity(o.Identity)
		note(loadErr)
		c.Certificates = []tls.Certificate{id}
	}
	c.RootCAs, err = LoadTrust(o.Trust)
	note(err)
	switch {
	case o.Endpoint == "":
		c.InsecureSkipVerify = true // only the name is not checked
		c.VerifyConnection = verifyChain(c.RootCAs)
	case !strings.EqualFold(o.Endpoint, "https"):
		note(problem("ssl.endpoint.identification.algorithm", "%q is not supported: https, or empty for no check of the server's name", o.Endpoint))
	}
	warnings, err = o.versionsAndSuites(c)
	note(err)
	if len(problems) > 0 {
		return nil, warnings, errors.Join(problems...)
	}
	return c, warnings, nil
}

// verifyChain checks the server's certificates without its name.
func verifyChain(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, c := range s.PeerCertificates[1:] {
			o.Intermediates.AddCert(c)
		}
		if _, err := s.PeerCertificates[0].Verify(o); err != nil {
			return fmt.Errorf("verify the server's certificate: %w", err)
		}
		return nil
	}
}

// versionsAndSuites sets MinVersion, MaxVersion and CipherSuites.
func (o Options) versionsAndSuites(c *tls.Config) (warnings []string, err error) {
	with12, with13, warnings, err := o.versions()
	if err != nil {
		return warnings, err
	}
	if len(o.CipherSuites) > 0 {
		ids, suites13, more, err := cipherSuites(o.CipherSuites)
		warnings = append(warnings, more...)
		if err != nil {
			return warnings, err
		}
		c.CipherSuites = ids
		with12 = with12 && len(ids) > 0
		with13 = with13 && suites13
		if !with12 && !with13 {
			return warnings, problem("ssl.cipher.suites", "none of them can be used with the protocols of ssl.enabled.protocols")
		}
	}
	c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS13
	if !with12 {
		c.MinVersion = tls.VersionTLS13
	}
	if !with13 {
		c.MaxVersion = tls.VersionTLS12
	}
	return warnings, nil
}

// versions reads ssl.enabled.protocols. What Java 17 has switched off, though
// it knows the name, is left out with a warning.
func (o Options) versions() (with12, with13 bool, warnings []string, err error) {
	if len(o.EnabledProtocols) == 0 {
		return true, true, nil, nil
	}
	for _, p := range o.EnabledProtocols {
		switch p {
		case "TLSv1.2":
			with12 = true
		case "TLSv1.3":
			with13 = true
		case "TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello":
			warnings = append(warnings, fmt.Sprintf("ssl.enabled.protocols: %s is not offered, as Java does not either", p))
		default:
			return false, false, warnings, problem("ssl.enabled.protocols", "unsupported protocol %q: use TLSv1.2 and TLSv1.3", p)
		}
	}
	if !with12 && !with13 {
		return false, false, warnings, problem("ssl.enabled.protocols", "none of %s can be used: use TLSv1.2 and TLSv1.3", strings.Join(o.EnabledProtocols, ", "))
	}
	return with12, with13, warnings, nil
}

// cipherSuites translates Java's names. with13 tells that one of TLS 1.3 is
// among them; Go then offers all three.
func cipherSuites(names []string) (ids []uint16, with13 bool, warnings []string, err error) {
	known := map[string]*tls.CipherSuite{}
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		known[s.Name] = s
	}
	form := regexp.MustCompile(`\ATLS_[A-Za-z0-9_]+_WITH_[A-Z0-9_]+\z`)
	count13 := 0
	for _, name := range names {
		ianaName := "TLS_" + strings.TrimPrefix(strings.TrimPrefix(name, "SSL_"), "TLS_")
		suite := known[ianaName]
		switch {
		case suite != nil && slices.Contains(suite.SupportedVersions, tls.VersionTLS12):
			ids = append(ids, suite.ID)
			if suite.Insecure {
				warnings = append(warnings, fmt.Sprintf("ssl.cipher.suites: %s is weak", name))
			}
		case suite != nil:
			count13++
		case name == "TLS_EMPTY_RENEGOTIATION_INFO_SCSV": // no suite
		case form.MatchString(ianaName):
			warnings = append(warnings, fmt.Sprintf("ssl.cipher.suites: %s is not available here and is left out", name))
		default:
			return nil, false, warnings, problem("ssl.cipher.suites", "unsupported cipher suite %q", name)
		}
	}
	const all13 = 3
	if count13 > 0 && count13 < all13 {
		warnings = append(warnings, "ssl.cipher.suites: the suites of TLS 1.3 cannot be chosen one by one; all three are offered")
	}
	return ids, count13 > 0, warnings, nil
}
