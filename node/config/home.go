package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
)

var (
	// ErrNoHome is returned for a directory that Init has not made a home.
	ErrNoHome = errors.New("no peer lives here; make it the home of one with: peerd init --home")
	// ErrExists is returned by Init for a directory that is a home already.
	ErrExists = errors.New("a peer lives there already; nothing was changed")
	// ErrKey is returned when the key file is not one that this program wrote,
	// or can be read by others.
	ErrKey = errors.New("unusable key file")
)

// maxKeyBytes bounds the key file; a marshalled Ed25519 key has 68 bytes.
const maxKeyBytes = 1024

// Home is the directory of one peer. Its methods only name what is in it.
//
//	key          identity: libp2p's marshalled Ed25519 private key, mode 0600
//	config.toml  settings, see Config
//	store/       the database, which locks itself against a second process
//	registry/    what the Internet registries say of addresses
//	api.json     address and token of the admin API while the peer runs, mode 0600
type Home struct {
	// Dir is the directory's path.
	Dir string
}

// KeyFile is the path of the identity.
func (h Home) KeyFile() string { return filepath.Join(h.Dir, "key") }

// ConfigFile is the path of the settings.
func (h Home) ConfigFile() string { return filepath.Join(h.Dir, "config.toml") }

// ArchiveDir is the folder of the WARC files.
func (h Home) ArchiveDir() string { return filepath.Join(h.Dir, "archive") }

// StoreDir is the path of the database.
func (h Home) StoreDir() string { return filepath.Join(h.Dir, "store") }

// RegistryDir is the folder of the Internet registries' data.
func (h Home) RegistryDir() string { return filepath.Join(h.Dir, "registry") }

// APIFile is the path of the admin API's address and token.
func (h Home) APIFile() string { return filepath.Join(h.Dir, "api.json") }

// Path returns name as seen from the home: unchanged when absolute.
func (h Home) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(h.Dir, name)
}

// Init makes dir, created when missing, the home of a new peer: a fresh
// identity and a commented config.toml. It never overwrites a file. What is
// missing of a home that an earlier Init left unfinished is added; a complete
// one is ErrExists.
func Init(dir string) (Home, error) {
	h := Home{Dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Home{}, fmt.Errorf("create home: %w", err)
	}
	key, err := newKey()
	if err != nil {
		return Home{}, fmt.Errorf("create home: %w", err)
	}
	made := 0
	for _, f := range []struct {
		path string
		data []byte
		perm fs.FileMode
	}{
		{h.KeyFile(), key, 0o600},
		{h.ConfigFile(), []byte(template), 0o644},
	} {
		switch err := createFile(f.path, f.data, f.perm); {
		case err == nil:
			made++
		case !errors.Is(err, fs.ErrExist):
			return Home{}, fmt.Errorf("create home: %w", err)
		}
	}
	if made == 0 {
		return Home{}, fmt.Errorf("%s: %w", dir, ErrExists)
	}
	return Open(dir)
}

// Open returns the home in dir after a look at its identity. Its errors match
// ErrNoHome or ErrKey where they fit.
func Open(dir string) (Home, error) {
	h := Home{Dir: dir}
	info, err := os.Stat(h.KeyFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Home{}, fmt.Errorf("%s: %w %[1]s", dir, ErrNoHome)
	case err != nil:
		return Home{}, fmt.Errorf("open home: %w", err)
	case !info.Mode().IsRegular():
		return Home{}, fmt.Errorf("%s: %w: not a regular file", h.KeyFile(), ErrKey)
	case info.Mode().Perm()&0o077 != 0:
		return Home{}, fmt.Errorf("%s: %w: others may read it; run: chmod 600", h.KeyFile(), ErrKey)
	}
	return h, nil
}

// Key reads the identity. Its errors match ErrKey.
func (h Home) Key() (crypto.PrivKey, error) {
	f, err := os.Open(h.KeyFile())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKeyBytes))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	key, err := crypto.UnmarshalPrivateKey(data)
	if err != nil || key.Type() != crypto.Ed25519 {
		return nil, fmt.Errorf("%s: %w: it holds no Ed25519 key", h.KeyFile(), ErrKey)
	}
	return key, nil
}

// PeerID returns the name of the peer that lives in h. Its errors match ErrKey.
func (h Home) PeerID() (peer.ID, error) {
	key, err := h.Key()
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(key)
}

// newKey returns a fresh identity in libp2p's encoding.
func newKey() ([]byte, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, err
	}
	return crypto.MarshalPrivateKey(key)
}

// createFile writes a new file whole or not at all. An existing one is left
// alone and gives fs.ErrExist: the finished file is linked into place, which,
// unlike a rename, replaces nothing.
func createFile(path string, data []byte, perm fs.FileMode) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(perm), tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	return os.Link(tmp.Name(), path)
}
