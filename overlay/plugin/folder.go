package plugin

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/libp2p/go-libp2p/core/peer"
)

// MaxPlugins is how many plug-ins a peer keeps.
const MaxPlugins = 8

// The extensions of packages and of the files that say why a plug-in was switched off.
const extPackage, extOff = ".plugin", ".off"

const maxOff = 1024 // bytes of a reason

// ErrNotTrusted means that the operator does not trust the publisher of a plug-in.
var ErrNotTrusted = errors.New("the publisher is not in plugins.publishers of config.toml")

// ErrOld means that a package is not newer than another one of the same name.
var ErrOld = errors.New("another module with this name is kept already")

// Folder holds the packages of a peer. Processes may use it at the same time: files appear whole.
type Folder struct {
	Dir        string
	Publishers []peer.ID // that are trusted
}

// An Entry is a plug-in in a Folder.
type Entry struct {
	Signed
	Trusted bool
	Off     string // why it was switched off; "": it was not
}

// path returns the file of a plug-in. Each publisher has names of its own.
func (f Folder) path(s *Signed) string {
	return filepath.Join(f.Dir, s.Name+"."+s.Publisher.String()+extPackage)
}

// packages returns the files of packages, by name.
func (f Folder) packages() (all []string, err error) {
	entries, err := os.ReadDir(f.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), extPackage) {
			all = append(all, filepath.Join(f.Dir, e.Name()))
		}
	}
	return all, err
}

// readMost reads a file of at most limit bytes, or the first limit bytes of it.
func readMost(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit))
}

// List returns the plug-ins, by name. Files that are no packages are errors, joined.
func (f Folder) List() (all []Entry, err error) {
	names, err := f.packages()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, name := range names[:min(len(names), 4*MaxPlugins)] {
		head, err := readMost(name, 2+maxManifest)
		var s Signed
		if err == nil {
			s, _, err = split(head)
		}
		if err == nil && name != f.path(&s) {
			err = fmt.Errorf("%w: it has another name", ErrPlugin)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		all = append(all, Entry{s, slices.Contains(f.Publishers, s.Publisher), f.reason(&s)})
	}
	return all, errors.Join(errs...)
}

// reason returns why a plug-in was switched off.
func (f Folder) reason(s *Signed) string {
	b, err := readMost(f.path(s)+extOff, maxOff)
	switch digest, why, _ := strings.Cut(string(b), " "); {
	case errors.Is(err, fs.ErrNotExist), err == nil && digest != hex.EncodeToString(s.Digest):
		return ""
	case err != nil:
		return err.Error()
	default:
		return why
	}
}

// Module returns the module of a trusted plug-in, checked.
func (f Folder) Module(e Entry) ([]byte, error) {
	if !e.Trusted {
		return nil, ErrNotTrusted
	}
	pkg, err := readMost(f.path(&e.Signed), 2+maxManifest+MaxModule)
	if err != nil {
		return nil, err
	}
	s, module, err := Open(pkg)
	if err == nil && (s.Publisher != e.Publisher || string(s.Digest) != string(e.Digest)) {
		err = fmt.Errorf("%w: %s has changed", ErrPlugin, e.Name)
	}
	return module, err
}

// kept returns the plug-in that s may replace; its version is 0 if there is none. The error says
// why s may not be stored: its publisher is not trusted, or there is no space.
func (f Folder) kept(s *Signed) (old Entry, err error) {
	if !slices.Contains(f.Publishers, s.Publisher) {
		return old, ErrNotTrusted
	}
	all, _ := f.List() // files that are no packages count as none
	trusted := 0
	for _, e := range all {
		if e.Name == s.Name && e.Publisher == s.Publisher {
			return e, nil
		}
		if e.Trusted {
			trusted++
		}
	}
	if trusted >= MaxPlugins {
		return old, fmt.Errorf("%d plug-ins are kept already", trusted)
	}
	return old, nil
}

// Put stores a package, unless it has the same. One that was switched off may run again if it is
// put again by hand. The error matches ErrOld for another package that is not newer.
func (f Folder) Put(pkg []byte) (Signed, error) {
	s, _, err := Open(pkg)
	if err != nil {
		return s, err
	}
	old, err := f.kept(&s)
	if err != nil {
		return s, fmt.Errorf("plugin %s: %w", s.Name, err)
	}
	if s.Version < old.Version ||
		s.Version == old.Version && string(s.Digest) != string(old.Digest) {
		return s, fmt.Errorf("plugin %s: %w: version %d; sign the module with a higher one",
			s.Name, ErrOld, old.Version)
	}
	if s.Version > old.Version {
		if err := os.MkdirAll(f.Dir, 0o700); err != nil {
			return s, err
		}
		if err := renameio.WriteFile(f.path(&s), pkg, 0o600); err != nil {
			return s, err
		}
	}
	err = os.Remove(f.path(&s) + extOff)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return s, err
}

// SwitchOff notes why a plug-in must not run any more.
func (f Folder) SwitchOff(s Signed, why error) error {
	line := strings.Join(strings.Fields(why.Error()), " ")
	text := hex.EncodeToString(s.Digest) + " " + line[:min(len(line), maxOff/2)]
	return renameio.WriteFile(f.path(&s)+extOff, []byte(text), 0o600)
}
