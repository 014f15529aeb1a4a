package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"peerd/internal/bounded"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
)

var (
	// ErrNoHome is returned for a directory that is not a home made by Init.
	ErrNoHome = errors.New("not the home of a peer; create one with: peerd init --home")
	// ErrExists is returned by Init for a directory that is a home already.
	ErrExists = errors.New("already the home of a peer; nothing was changed")
	// ErrKey is returned if the key file was not written by this program, or if other users can
	// read it.
	ErrKey = errors.New("unusable key file")
)

// maxKeyBytes bounds the key file; a marshalled Ed25519 key has 68 bytes.
const maxKeyBytes = 1024

// Home is the directory of one peer. Most of its methods return the paths in it.
//
//	key          identity: libp2p's marshalled Ed25519 private key, mode 0600
//	config.toml  settings, see Config
//	profile.toml the rules of the network that the peer has founded or joined
//	membership   this peer's membership of that network, unless it is open
//	invitations  which peers have used which invitation of this peer
//	store/       the database, locked while a process uses it
//	archive/     the WARC files
//	index/       the full-text index of the archived pages
//	mirrors/     copies of the archives of other peers
//	tmp/         temporary files
//	plugins/     the plug-ins of trusted publishers
//	deny         hosts and networks that the peer does not request
//	registry/    data of the Internet registries
//	api.json     address and token of the admin API while the peer runs, mode 0600
//	read.token   token of the admin API that permits only to read, as above
type Home struct {
	// Dir is the directory's path.
	Dir string
}

// DefaultHome returns the directory of the home that is used if none is named: that in the
// variable PEERD_HOME of the environment, or peerd in XDG_DATA_HOME, which is ~/.local/share if it
// is not set (XDG Base Directory Specification). "" if there is no home directory of the user.
func DefaultHome() string {
	if dir := os.Getenv("PEERD_HOME"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "peerd")
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(user, ".local", "share", "peerd")
}

// KeyFile returns the path of the identity.
func (h Home) KeyFile() string { return filepath.Join(h.Dir, "key") }

// ConfigFile returns the path of the settings.
func (h Home) ConfigFile() string { return filepath.Join(h.Dir, "config.toml") }

// ProfileFile returns the path of the profile of the network that the peer has founded or joined.
func (h Home) ProfileFile() string { return filepath.Join(h.Dir, "profile.toml") }

// MembershipFile returns the path of this peer's membership.
func (h Home) MembershipFile() string { return filepath.Join(h.Dir, "membership") }

// InvitationsFile returns the path of the uses of this peer's invitations.
func (h Home) InvitationsFile() string { return filepath.Join(h.Dir, "invitations") }

// ArchiveDir returns the folder of the WARC files.
func (h Home) ArchiveDir() string { return filepath.Join(h.Dir, "archive") }

// IndexDir returns the folder of the full-text index.
func (h Home) IndexDir() string { return filepath.Join(h.Dir, "index") }

// MirrorsDir returns the folder of the copies of the archives of other peers.
func (h Home) MirrorsDir() string { return filepath.Join(h.Dir, "mirrors") }

// EventsFile returns the path of the event log.
func (h Home) EventsFile() string { return filepath.Join(h.Dir, "events.jsonl") }

// StoreDir returns the path of the database.
func (h Home) StoreDir() string { return filepath.Join(h.Dir, "store") }

// RegistryDir returns the folder of the Internet registries' data.
func (h Home) RegistryDir() string { return filepath.Join(h.Dir, "registry") }

// APIFile returns the path of the admin API's address and token.
func (h Home) APIFile() string { return filepath.Join(h.Dir, "api.json") }

// DenyFile returns the path of the deny list.
func (h Home) DenyFile() string { return filepath.Join(h.Dir, "deny") }

// ReadTokenFile returns the path of the admin API's token that permits only to read.
func (h Home) ReadTokenFile() string { return filepath.Join(h.Dir, "read.token") }

// JournalFile returns the path of the moves and counters of earlier runs.
func (h Home) JournalFile() string { return filepath.Join(h.Dir, "journal.json") }

// Path returns name relative to the home; an absolute name is returned unchanged.
func (h Home) Path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(h.Dir, name)
}

// Init makes dir, which it creates if necessary, the home of a new peer with a new identity and
// a commented config.toml. It never overwrites a file. It completes a home that an earlier Init
// left unfinished. For a complete home the error is ErrExists.
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

// Open checks the identity in dir and returns the home. Its errors match ErrNoHome or ErrKey
// where these apply.
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
		return Home{}, fmt.Errorf("%s: %w: other users can read it; run: chmod 600 %[1]s",
			h.KeyFile(), ErrKey)
	}
	return h, nil
}

// Key reads the identity. Its errors match ErrKey.
func (h Home) Key() (crypto.PrivKey, error) {
	data, err := bounded.ReadFile(h.KeyFile(), maxKeyBytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	key, err := crypto.UnmarshalPrivateKey(data)
	if err != nil || key.Type() != crypto.Ed25519 {
		return nil, fmt.Errorf("%s: %w: not an Ed25519 key", h.KeyFile(), ErrKey)
	}
	return key, nil
}

// PeerID returns the peer ID of the identity. Its errors match ErrKey.
func (h Home) PeerID() (peer.ID, error) {
	key, err := h.Key()
	if err != nil {
		return "", err
	}
	return peer.IDFromPrivateKey(key)
}

// newKey returns a new identity in libp2p's encoding.
func newKey() ([]byte, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, err
	}
	return crypto.MarshalPrivateKey(key)
}

// createFile creates a file atomically. If the file exists, it does not change it and returns
// fs.ErrExist: linking the finished file into place, unlike renaming it, replaces nothing.
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
