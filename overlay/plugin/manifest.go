package plugin

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/record"
)

const (
	// MaxModule is the maximum size of a module, and maxManifest of a signed manifest. Bytes.
	MaxModule   = 8 << 20
	maxManifest = 1024
)

// manifests separates manifests from everything else that a key signs.
var manifests = record.Kind{Domain: "peerd-plugin", Codec: "peerd-plugin", Max: maxManifest}

// ErrPlugin means that bytes are not a package or manifest that a publisher has made.
var ErrPlugin = errors.New("plugin: invalid")

// validName is the form of names, which are parts of file names and of field names of the archive.
var validName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// Manifest is what a publisher says of a plug-in.
type Manifest struct {
	Name    string `cbor:"1,keyasint"`
	Version uint64 `cbor:"2,keyasint"` // a higher one replaces a lower one
	Digest  []byte `cbor:"3,keyasint"` // SHA-256 of the module
	Size    int    `cbor:"4,keyasint"` // of the module, bytes
}

func (m *Manifest) check() error {
	if !validName.MatchString(m.Name) {
		return fmt.Errorf("%w: name %.40q: want up to 32 of a-z, 0-9 and hyphens", ErrPlugin,
			m.Name)
	}
	if m.Version == 0 || len(m.Digest) != sha256.Size || m.Size < 1 || m.Size > MaxModule {
		return fmt.Errorf("%w: version %d, digest of %d bytes, module of %d (at most %d)",
			ErrPlugin, m.Version, len(m.Digest), m.Size, MaxModule)
	}
	return nil
}

// Signed is a manifest with a valid signature.
type Signed struct {
	Manifest
	Publisher peer.ID
	sealed    []byte
}

// open checks a signed manifest.
func open(sealed []byte) (Signed, error) {
	s := Signed{sealed: sealed}
	var err error
	if s.Publisher, err = manifests.Open(sealed, &s.Manifest); err != nil {
		return s, fmt.Errorf("%w: %w", ErrPlugin, err)
	}
	return s, s.check()
}

// Sign returns the package of a module.
func Sign(key crypto.PrivKey, name string, version uint64, module []byte) ([]byte, error) {
	digest := sha256.Sum256(module)
	m := &Manifest{Name: name, Version: version, Digest: digest[:], Size: len(module)}
	if err := m.check(); err != nil {
		return nil, err
	}
	sealed, err := manifests.Seal(m, key)
	if err != nil {
		return nil, err
	}
	return pack(sealed, module), nil
}

// pack returns a package: the length of the signed manifest in two bytes, big endian, the manifest,
// and the module.
func pack(sealed, module []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(sealed)))
	return append(append(b, sealed...), module...)
}

// Open returns the manifest and the module of a package, after all checks but whether the publisher
// is trusted.
func Open(pkg []byte) (Signed, []byte, error) {
	s, module, err := split(pkg)
	if err != nil {
		return s, nil, err
	}
	return s, module, s.checkModule(module)
}

// split returns the manifest of a package and what follows it, which may have been cut.
func split(pkg []byte) (s Signed, rest []byte, err error) {
	if len(pkg) < 2 || len(pkg)-2 < int(binary.BigEndian.Uint16(pkg)) {
		return s, nil, fmt.Errorf("%w: no package", ErrPlugin)
	}
	n := 2 + int(binary.BigEndian.Uint16(pkg))
	s, err = open(pkg[2:n:n])
	return s, pkg[n:], err
}

// checkModule checks whether a module is that of the manifest.
func (s *Signed) checkModule(module []byte) error {
	if sum := sha256.Sum256(module); len(module) != s.Size || !bytes.Equal(sum[:], s.Digest) {
		return fmt.Errorf("%w: %s: the module is not the one that was signed", ErrPlugin, s.Name)
	}
	return nil
}
