package connbench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// Dial connects, as [net.Dialer] does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// TLS is d with TLS on top; config's ServerName, unless set, is the host that is dialed.
func (d Dial) TLS(config *tls.Config) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.handshake(ctx, network, address, address, config)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}

func (d Dial) handshake(ctx context.Context, network, address, name string, config *tls.Config) (*tls.Conn, error) {
	raw, err := d(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(name)
		if err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		config = config.Clone()
		config.ServerName = host
	}
	c := tls.Client(raw, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS handshake with %s: %w", name, err), raw.Close())
	}
	return c, nil
}

// Verify connects to name (host:port) once, at addr, and returns the certificate that was verified as PEM. config is a client's own.
func Verify(ctx context.Context, d Dial, name string, addr netip.AddrPort, config *tls.Config) (pin string, err error) {
	c, err := d.handshake(ctx, "tcp", addr.String(), name, config)
	if err != nil {
		return "", err
	}
	leaf := c.ConnectionState().PeerCertificates[0]
	_ = c.Close() // nothing was sent but the handshake
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw})), nil
}

// ClientTLS is what fleet clients take from a client's TLS configuration: its own certificate and the versions. What the broker is
// verified by is left to [Verify].
func ClientTLS(config *tls.Config) (fleet.TLS, error) {
	t := fleet.TLS{MinVersion: config.MinVersion, MaxVersion: config.MaxVersion}
	if len(config.Certificates) == 0 {
		return t, nil
	}
	own := config.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		return t, fmt.Errorf("hand the client's key to the client processes: %w", err)
	}
	for _, der := range own.Certificate {
		t.Certificate += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	t.Key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	return t, nil
}

// Resolve finds the address of name (host:port) that takes connections, IPv4 first.
func Resolve(ctx context.Context, name string) (netip.AddrPort, error) {
	addrs, err := Addresses(ctx, name)
	if err != nil {
		return netip.AddrPort{}, err
	}
	var d net.Dialer
	var errs []error
	for _, a := range addrs {
		c, err := d.DialContext(ctx, "tcp", a.String())
		if err == nil {
			return a, c.Close()
		}
		errs = append(errs, err)
	}
	return netip.AddrPort{}, errors.Join(errs...)
}

// Addresses are those that name (host:port) stands for, IPv4 first.
func Addresses(ctx context.Context, name string) ([]netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(name)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var v4, v6 []netip.AddrPort
	for _, ip := range ips {
		if ip = ip.Unmap(); ip.Is4() {
			v4 = append(v4, netip.AddrPortFrom(ip, uint16(port)))
		} else {
			v6 = append(v6, netip.AddrPortFrom(ip, uint16(port)))
		}
	}
	return append(v4, v6...), nil
}
