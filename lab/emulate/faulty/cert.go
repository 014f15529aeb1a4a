package faulty

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"time"
)

// CertKind is what is right or wrong with a certificate.
type CertKind string

// The kinds of certificates.
const (
	CertValid      CertKind = "valid"
	CertExpired    CertKind = "expired"     // since yesterday
	CertOtherHost  CertKind = "other host"  // for other.invalid
	CertSelfSigned CertKind = "self-signed" // by no authority
)

// authority issues certificates. It is safe for concurrent use.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey // of all certificates, to save time
	pem  []byte

	mu     sync.Mutex
	issued map[string]*tls.Certificate // by host
	serial int64
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key, issued: map[string]*tls.Certificate{}, serial: 1}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test Authority"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

// get returns the certificate of a host.
func (a *authority) get(host string, kind CertKind) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.issued[host]; c != nil {
		return c, nil
	}
	a.serial++
	t := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: host},
		DNSNames:  []string{host},
		NotBefore: time.Now().Add(-36 * time.Hour), NotAfter: time.Now().Add(36 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	parent := a.cert
	switch kind {
	case CertExpired:
		t.NotAfter = time.Now().Add(-24 * time.Hour)
	case CertOtherHost:
		t.DNSNames = []string{"other.invalid"}
	case CertSelfSigned:
		parent = t
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
	a.issued[host] = c
	return c, nil
}
