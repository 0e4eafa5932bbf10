package broker

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAnEngineThatSpeaksNoTLSOrIsSignedByAnotherIsToldApart(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() })
	go func() { // hangs up on what it does not understand
		for {
			c, refused := plain.Accept()
			if refused != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}
	}()
	other := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	for want, address := range map[string]string{
		"does it speak TLS there?":                          plain.Addr().String(),
		"engine.ssl.truststore.location has to hold its CA": other.Listener.Addr().String(),
	} {
		_, err := dialer(&tls.Config{ServerName: "example.com", MinVersion: tls.VersionTLS12})(t.Context(), "tcp", address)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dial = %v, want %q", err, want)
		}
	}
}
