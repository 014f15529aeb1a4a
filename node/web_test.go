package node

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"peerd/node/config"
)

func TestIdleConnections(t *testing.T) {
	for _, tt := range []struct {
		memory int64
		files  uint64
		want   int
	}{
		{192 << 20, 1 << 20, 1456},
		{192 << 20, 1024, 512},
		{64 << 20, 1 << 20, 485},
		{0, 65536, 32768},
		{0, 1 << 40, maxIdle},
		{1 << 50, 1 << 40, maxIdle},
		{192 << 20, 64, minIdle},
	} {
		if got := idleConnections(tt.memory, tt.files); got != tt.want {
			t.Errorf("memory %d, files %d: %d idle connections, want %d", tt.memory, tt.files, got,
				tt.want)
		}
	}
	for gap, want := range map[time.Duration]time.Duration{
		0: time.Minute, time.Second: time.Minute, 10 * time.Second: 130 * time.Second,
		time.Hour: 5 * time.Minute,
	} {
		if got := idleTimeout(gap); got != want {
			t.Errorf("idle timeout for a gap of %v is %v, want %v", gap, got, want)
		}
	}
}

func TestArchiveLimit(t *testing.T) {
	for _, tt := range []struct {
		setting map[string]config.Size
		want    map[string]int64
	}{
		{nil, map[string]int64{"*/*": config.DefaultArchiveBody}},
		{map[string]config.Size{"a/b": 0},
			map[string]int64{"a/b": 0, "*/*": config.DefaultArchiveBody}},
		{map[string]config.Size{"image/*": 5, "*/*": 1}, map[string]int64{"image/*": 5, "*/*": 1}},
	} {
		if got := archiveLimits(tt.setting); !maps.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.setting, got, tt.want)
		}
	}
}

func TestRootCAs(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	home := config.Home{Dir: t.TempDir()}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, text := range map[string][]byte{"ca.pem": text, "none.pem": []byte("nothing")} {
		if err := os.WriteFile(filepath.Join(home.Dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := rootCAs(home, []string{"ca.pem"})
	if err != nil {
		t.Fatal(err)
	}
	leaf, _ := x509.ParseCertificate(der)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool}); err != nil {
		t.Error(err)
	}
	if pool, err := rootCAs(home, nil); pool != nil || err != nil {
		t.Errorf("without files: %v, %v", pool, err)
	}
	for _, bad := range []string{"none.pem", "absent.pem"} {
		if _, err := rootCAs(home, []string{bad}); err == nil ||
			!bytes.Contains([]byte(err.Error()), []byte(bad)) {
			t.Errorf("%s: %v, want an error with its name", bad, err)
		}
	}
}
