package fetch

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"peerd/store"
)

// certificate returns a certificate for host, self-signed by issuer.
func certificate(t *testing.T, host, issuer string, notAfter time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: issuer},
		DNSNames:    []string{host},
		IPAddresses: []net.IP{net.ParseIP("127.7.8.1")},
		NotBefore:   time.Now().Add(-48 * time.Hour), NotAfter: notAfter, IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestTLSInfo uses servers with valid and invalid certificates, with and without AcceptInvalidTLS.
func TestTLSInfo(t *testing.T) {
	good, past := time.Now().Add(time.Hour).Truncate(time.Second),
		time.Now().Add(-time.Hour).Truncate(time.Second)
	tests := []struct {
		name, certHost, urlHost string
		notAfter                time.Time
		known                   bool
		max                     uint16
		protos                  []string
		verified                bool
		version, alpn           string
	}{
		{"good", "site.example", "site.example", good, true, 0, []string{"h2"}, true, "TLS 1.3", "h2"},
		{"old version", "site.example", "site.example", good, true, tls.VersionTLS12, []string{"http/1.1"}, true, "TLS 1.2", "http/1.1"},
		{"no ALPN", "site.example", "site.example", good, true, 0, nil, true, "TLS 1.3", ""},
		{"address", "site.example", "127.7.8.1", good, true, 0, nil, true, "TLS 1.3", ""},
		{"self-signed", "site.example", "site.example", good, false, 0, nil, false, "TLS 1.3", ""},
		{"expired", "site.example", "site.example", past, true, 0, nil, false, "TLS 1.3", ""},
		{"another host's", "site.example", "other.example", good, true, 0, []string{"h2"}, false, "TLS 1.3", "h2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cert := certificate(t, tt.certHost, strings.Repeat("ü", 200), tt.notAfter)
			s := newTLSSite(t, "127.7.8.1", &tls.Config{Certificates: []tls.Certificate{cert},
				MaxVersion: tt.max, NextProtos: tt.protos})
			roots := x509.NewCertPool()
			if leaf, err := x509.ParseCertificate(cert.Certificate[0]); err != nil {
				t.Fatal(err)
			} else if tt.known {
				roots.AddCert(leaf)
			}
			for _, lax := range []bool{false, true} {
				f := newFetcher(t, func(c *Config) {
					c.TLS = &tls.Config{RootCAs: roots}
					c.AcceptInvalidTLS = lax
				})
				for range 2 {
					res := f.Do(t.Context(), Request{URL: s.url("https", tt.urlHost, "/"),
						Addr: s.addr})
					if !lax && !tt.verified {
						if res.Outcome != store.OutcomeTLS || res.TLS != nil {
							t.Errorf("%v %+v %v, want TLS", res.Outcome, res.TLS, res.Err)
						}
						continue
					}
					if res.Outcome != store.OutcomeOK {
						t.Fatal(res.Outcome, res.Err)
					}
					got := *res.TLS
					want := TLSInfo{
						Version: tt.version, ALPN: tt.alpn, Verified: tt.verified,
						CipherSuite: got.CipherSuite,
						NotBefore:   got.NotBefore, NotAfter: tt.notAfter.UTC(),
						Issuer: strings.Repeat("ü", 128), Names: tt.certHost + " 127.7.8.1",
					}
					if got != want || len(got.CipherSuite) < 10 ||
						got.NotBefore.After(got.NotAfter) {
						t.Errorf("lax %v: %+v, want %+v", lax, got, want)
					}
				}
			}
		})
	}
}

func TestHTTP2(t *testing.T) {
	s := newSite(t, "127.7.8.2", "h2", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Proto)
	})
	for http2, want := range map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"} {
		f := newFetcher(t, func(c *Config) { c.TLS, c.HTTP2 = tlsRoots(s), http2 })
		res := f.Do(t.Context(), Request{URL: s.url("https", "example.com", "/"), Addr: s.addr})
		if string(res.Body) != want || (res.Proto == "h2") != http2 {
			t.Errorf("HTTP/2 %v: %q over %s, %v", http2, res.Body, res.Proto, res.Err)
		}
	}
}

// newTLSSite starts a server with cfg; like that of newSite, it uses HTTP/2 if that is negotiated.
func newTLSSite(t *testing.T, ip string, cfg *tls.Config) *site {
	s := newUnstarted(t, ip, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "ok")
	})
	l := tls.NewListener(s.Listener, cfg)
	srv := &http.Server{Handler: s.Config.Handler, ErrorLog: s.Config.ErrorLog, TLSConfig: cfg,
		ReadHeaderTimeout: time.Minute}
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(l)
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return s
}
