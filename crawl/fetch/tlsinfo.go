package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"time"
)

// TLSInfo describes the TLS session of a connection. All responses over a connection share it: do
// not modify it.
type TLSInfo struct {
	Version     string // as in "TLS 1.3"
	CipherSuite string // name of the IANA, as in "TLS_AES_128_GCM_SHA256"
	ALPN        string // "h2", "http/1.1", or "" if none was negotiated
	// Verified means that the certificate is valid for the host; false only with
	// Config.AcceptInvalidTLS.
	Verified bool
	// The certificate of the server: the time for which it is valid, the common name of its issuer
	// (at most 256 bytes of UTF-8), and the names and addresses for which it is valid, separated by
	// spaces (at most 1 KiB; the rest is left out).
	NotBefore, NotAfter time.Time
	Issuer, Names       string
}

// maxSubjectNames is the maximum length of TLSInfo.Names.
const maxSubjectNames = 1 << 10

// newTLSInfo describes the session with addr, a host with port. With an insecure base, crypto/tls
// did not verify the certificate; it is verified here, with the roots of base.
func newTLSInfo(state *tls.ConnectionState, addr string, base *tls.Config) *TLSInfo {
	info := &TLSInfo{
		Version:     tls.VersionName(state.Version),
		CipherSuite: tls.CipherSuiteName(state.CipherSuite),
		ALPN:        state.NegotiatedProtocol,
		Verified:    !base.InsecureSkipVerify,
	}
	if len(state.PeerCertificates) == 0 {
		return info
	}
	leaf := state.PeerCertificates[0]
	info.NotBefore, info.NotAfter = leaf.NotBefore, leaf.NotAfter
	info.Issuer = printable(leaf.Issuer.CommonName, 256)
	for _, name := range subjectNames(leaf) {
		if len(info.Names)+len(name) >= maxSubjectNames {
			break
		}
		info.Names += " " + printable(name, maxSubjectNames)
	}
	info.Names = strings.TrimPrefix(info.Names, " ")
	if host, _, err := net.SplitHostPort(addr); !info.Verified && err == nil {
		opts := x509.VerifyOptions{
			DNSName: host, Roots: base.RootCAs, Intermediates: x509.NewCertPool(),
		}
		for _, c := range state.PeerCertificates[1:] {
			opts.Intermediates.AddCert(c)
		}
		_, err := leaf.Verify(opts)
		info.Verified = err == nil
	}
	return info
}
