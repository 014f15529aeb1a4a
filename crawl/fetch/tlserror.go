package fetch

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"
)

// tlsError says in words why there is no TLS session. It wraps the error of crypto/tls.
type tlsError struct {
	text string
	err  error
}

func (e *tlsError) Error() string { return e.text }
func (e *tlsError) Unwrap() error { return e.err }

// describeTLS returns err with a text that an operator understands: what is wrong with the
// certificate of host, or how the handshake failed. Other errors are returned unchanged.
func describeTLS(err error, host string) error {
	var (
		cert    *tls.CertificateVerificationError
		op      *net.OpError
		header  tls.RecordHeaderError
		message = "TLS handshake failed: "
	)
	switch {
	case isTimeout(err):
		message = "TLS handshake timed out"
	case errors.As(err, &cert):
		message = certificateFault(cert, host)
	case errors.As(err, &header):
		message += "the server does not speak TLS"
	case errors.As(err, &op) && op.Op == "remote error": // of crypto/tls, for an alert
		message += "the server reported: " + strings.TrimPrefix(op.Err.Error(), "tls: ")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET):
		message += "the server closed the connection"
	default:
		message += strings.TrimPrefix(err.Error(), "tls: ")
	}
	return &tlsError{message, err}
}

// certificateFault returns why a certificate was not accepted for host.
func certificateFault(e *tls.CertificateVerificationError, host string) string {
	var (
		name      x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(e.Err, &name):
		names := certificateNames(name.Certificate)
		return "certificate is valid for " + names + ", not for " + host
	case errors.As(e.Err, &authority):
		return unknownAuthority(e.UnverifiedCertificates)
	case errors.As(e.Err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		subject := "certificate"
		if all := e.UnverifiedCertificates; len(all) > 0 && !invalid.Cert.Equal(all[0]) {
			subject = "certificate of the authority " + clip(invalid.Cert.Subject.CommonName)
		}
		if time.Now().Before(invalid.Cert.NotBefore) {
			return subject + " is not valid before " + day(invalid.Cert.NotBefore)
		}
		return subject + " expired on " + day(invalid.Cert.NotAfter)
	}
	return "certificate is invalid: " + strings.TrimPrefix(e.Err.Error(), "x509: ")
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// unknownAuthority describes a chain of certificates that ends at no trusted root.
func unknownAuthority(chain []*x509.Certificate) string {
	if len(chain) == 0 {
		return "certificate is signed by an unknown authority"
	}
	leaf, last := chain[0], chain[len(chain)-1]
	if string(leaf.RawIssuer) == string(leaf.RawSubject) {
		return "certificate is self-signed"
	}
	return "certificate is signed by an unknown authority, " + authorityName(last)
}

// authorityName names the authority that signed c.
func authorityName(c *x509.Certificate) string {
	for _, n := range append([]string{c.Issuer.CommonName}, c.Issuer.Organization...) {
		if n != "" {
			return clip(n)
		}
	}
	return "without a name"
}

// maxNames is the number of names of a certificate that are reported.
const maxNames = 3

// certificateNames lists the names for which c is valid.
func certificateNames(c *x509.Certificate) string {
	names := subjectNames(c)
	if len(names) == 0 {
		return "no host"
	}
	rest := len(names) - maxNames
	names = slices.Clone(names[:min(len(names), maxNames)])
	for i, n := range names {
		names[i] = clip(n)
	}
	if rest > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), rest)
	}
	return strings.Join(names, ", ")
}

// subjectNames returns the names and addresses for which c is valid (RFC 9525, section 6).
func subjectNames(c *x509.Certificate) []string {
	names := slices.Clone(c.DNSNames)
	for _, a := range c.IPAddresses {
		names = append(names, a.String())
	}
	return names
}

// clip returns s for a message.
func clip(s string) string { return printable(s, 64) }

// printable returns at most n bytes of s, which a server sent, as UTF-8 without control characters.
func printable(s string, n int) string {
	return replaceControls(strings.ToValidUTF8(s[:min(len(s), n)], ""))
}
