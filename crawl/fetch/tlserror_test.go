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
	"testing"
	"time"

	"peerd/store"
)

// signed returns a certificate made from a template, signed by parent or by itself.
func signed(
	t *testing.T, leaf *x509.Certificate, parent *x509.Certificate, parentKey *ecdsa.PrivateKey,
) (tls.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf.SerialNumber = big.NewInt(time.Now().UnixNano())
	if leaf.NotBefore.IsZero() {
		leaf.NotBefore = time.Now().Add(-time.Hour)
	}
	if leaf.NotAfter.IsZero() {
		leaf.NotAfter = time.Now().Add(time.Hour)
	}
	if parent == nil {
		parent, parentKey = leaf, key
		leaf.IsCA, leaf.BasicConstraintsValid = true, true
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, key
}

// TestTLSErrors checks what Result.Err says about a handshake that fails.
func TestTLSErrors(t *testing.T) {
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "Test Authority"}}
	_, caKey := signed(t, ca, nil, nil)
	roots := x509.NewCertPool()
	rootDER, _ := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	root, err := x509.ParseCertificate(rootDER)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(root)
	other := &x509.Certificate{Subject: pkix.Name{CommonName: "Other\x1b[31m Authority"}}
	_, otherKey := signed(t, other, nil, nil)

	named := func(names ...string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}, DNSNames: names}
	}
	at := func(c *x509.Certificate, from, to time.Time) *x509.Certificate {
		c.NotBefore, c.NotAfter = from, to
		return c
	}
	day := 24 * time.Hour
	past, future := time.Now().Add(-10*day), time.Now().Add(10*day)
	good, _ := signed(t, named("site.example"), root, caKey)
	for _, tt := range []struct {
		name  string
		leaf  *x509.Certificate
		by    *x509.Certificate
		key   *ecdsa.PrivateKey
		tls   *tls.Config
		serve func(net.Conn) // instead of TLS
		want  string
	}{
		{name: "expired", leaf: at(named("site.example"), past, past.Add(day)), by: root,
			key: caKey, want: "certificate expired on " +
				past.Add(day).UTC().Format(time.DateOnly)},
		{name: "not yet valid", leaf: at(named("site.example"), future, future.Add(day)), by: root,
			key: caKey, want: "certificate is not valid before " +
				future.UTC().Format(time.DateOnly)},
		{name: "other host", leaf: named("a.example", "b.example"), by: root, key: caKey,
			want: "certificate is valid for a.example, b.example, not for site.example"},
		{name: "many hosts", leaf: named("a.example", "b.example", "c.example", "d.example",
			"e.example"), by: root, key: caKey, want: "certificate is valid for a.example, " +
			"b.example, c.example and 2 more, not for site.example"},
		{name: "no host", leaf: named(), by: root, key: caKey,
			want: "certificate is valid for no host, not for site.example"},
		{name: "self-signed", leaf: named("site.example"), want: "certificate is self-signed"},
		{name: "unknown authority", leaf: named("site.example"), by: other, key: otherKey,
			want: "certificate is signed by an unknown authority, Other [31m Authority"},
		{name: "old version", tls: &tls.Config{MinVersion: tls.VersionTLS10,
			MaxVersion: tls.VersionTLS10, Certificates: []tls.Certificate{good}},
			want: "TLS handshake failed: the server reported: protocol version not supported"},
		{name: "client certificate", tls: &tls.Config{ClientAuth: tls.RequireAnyClientCert,
			MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{good}},
			want: "TLS handshake failed: the server reported: handshake failure"},
		{name: "no TLS", serve: func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 No\r\n\r\n") },
			want: "TLS handshake failed: the server does not speak TLS"},
		{name: "closed", serve: func(c net.Conn) { c.Read(make([]byte, 2000)) },
			want: "TLS handshake failed: the server closed the connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.leaf != nil {
				cert, _ := signed(t, tt.leaf, tt.by, tt.key)
				tt.tls = &tls.Config{Certificates: []tls.Certificate{cert}}
			}
			if tt.serve == nil {
				tt.serve = func(c net.Conn) { tls.Server(c, tt.tls).Handshake() }
			}
			l, err := net.Listen("tcp", "127.7.8.3:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				if c, err := l.Accept(); err == nil {
					tt.serve(c)
					c.Close()
				}
			}()
			f := newFetcher(t, func(c *Config) { c.TLS = &tls.Config{RootCAs: roots} })
			s := &site{port: uint16(l.Addr().(*net.TCPAddr).Port)}
			res := f.Do(t.Context(), Request{URL: s.url("https", "site.example", "/"),
				Addr: l.Addr().(*net.TCPAddr).AddrPort().Addr()})
			if res.Outcome != store.OutcomeTLS || res.Err == nil || res.Err.Error() != tt.want {
				t.Errorf("%v: %v\nwant %s", res.Outcome, res.Err, tt.want)
			}
		})
	}
}

// TestSessionsResume checks that a new connection to a host continues its TLS session, and that the
// facts about the certificate are known then, too.
func TestSessionsResume(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cert := certificate(t, "site.example", "issuer", time.Now().Add(time.Hour))
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(leaf)
		resumed := make(chan bool, 10)
		s := newTLSSite(t, "127.7.8.4", &tls.Config{Certificates: []tls.Certificate{cert},
			MaxVersion: version, VerifyConnection: func(c tls.ConnectionState) error {
				resumed <- c.DidResume
				return nil
			}})
		f := newFetcher(t, func(c *Config) {
			c.TLS, c.MaxIdle = &tls.Config{RootCAs: roots}, 0
		})
		for i := range 3 {
			req := Request{URL: s.url("https", "site.example", "/"), Addr: s.addr}
			res := f.Do(t.Context(), req)
			if res.Outcome != store.OutcomeOK || res.TLS.Names != "site.example 127.7.8.1" {
				t.Fatal(res.Outcome, res.Err, res.TLS)
			}
			if got := <-resumed; got != (i > 0) {
				t.Errorf("%s, connection %d: resumed %v", tls.VersionName(version), i, got)
			}
		}
	}
}
