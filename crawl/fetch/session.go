package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"time"
)

// TLSInfo says what the TLS session of a connection was. It is shared by all
// answers over one connection: do not change it.
type TLSInfo struct {
	Version     string    // as in "TLS 1.3"
	CipherSuite string    // IANA's name, as in "TLS_AES_128_GCM_SHA256"
	ALPN        string    // "h2", "http/1.1", or "" if nothing was agreed
	Verified    bool      // the certificate is valid for the host; false only with Config.AcceptInvalidTLS
	NotAfter    time.Time // when the server's certificate expires
	Issuer      string    // common name of who signed it, at most 256 bytes of UTF-8
}

// session describes the session with addr, a host with port. With an insecure base, the certificate is checked
// here against the base's roots, as crypto/tls has not done it.
func session(state *tls.ConnectionState, addr string, base *tls.Config) *TLSInfo {
	info := &TLSInfo{
		Version:     tls.VersionName(state.Version),
		CipherSuite: tls.CipherSuiteName(state.CipherSuite),
		ALPN:        state.NegotiatedProtocol,
		Verified:    base == nil || !base.InsecureSkipVerify,
	}
	if len(state.PeerCertificates) == 0 {
		return info
	}
	leaf := state.PeerCertificates[0]
	info.NotAfter = leaf.NotAfter
	info.Issuer = leaf.Issuer.CommonName
	info.Issuer = strings.ToValidUTF8(info.Issuer[:min(len(info.Issuer), 256)], "")
	if host, _, err := net.SplitHostPort(addr); !info.Verified && err == nil {
		opts := x509.VerifyOptions{DNSName: host, Roots: base.RootCAs, Intermediates: x509.NewCertPool()}
		for _, c := range state.PeerCertificates[1:] {
			opts.Intermediates.AddCert(c)
		}
		_, err := leaf.Verify(opts)
		info.Verified = err == nil
	}
	return info
}
