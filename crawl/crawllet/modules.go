package crawllet

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"peerd/internal/order"
)

const (
	// maxModules is the number of modules that are kept. A module with its compiled form takes
	// about 20 MB.
	maxModules = 16
	// A directory with prefixNew is that of a module that is compiled, or what a host has left that
	// was killed meanwhile.
	prefixNew = "new-"
)

// modules are the uploaded modules in a directory, with their compiled forms: DIGEST/module.wasm
// and what the WebAssembly library adds. Only this user may write to the directory, because the
// compiled forms are executed. It is safe for concurrent use.
type modules struct {
	mu   sync.Mutex
	dir  string
	lock *os.File // closed with the modules: they are in use
}

// openModules creates the directory if necessary. It removes what hosts have left there that were
// killed, unless another one uses it.
func openModules(dir string) (*modules, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("crawllet: create cache: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("crawllet: open cache: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("crawllet: cache %s: other users can write to it", dir)
	}
	lock, err := lockDir(dir, func() error { return sweep(dir) })
	if err != nil {
		return nil, fmt.Errorf("crawllet: open cache: %w", err)
	}
	return &modules{dir: dir, lock: lock}, nil
}

// sweep removes modules that are not compiled, and compiled forms that are not written, to the end.
func sweep(dir string) (err error) {
	for _, pattern := range []string{prefixNew + "*", "*/wazero-*/*.tmp"} {
		names, _ := fs.Glob(os.DirFS(dir), pattern) // it is valid
		for _, name := range names {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
		}
	}
	return err
}

// modulePath returns the file of a module in its directory.
func modulePath(dir string) string { return filepath.Join(dir, "module.wasm") }

// get returns the directory of a module, if it is known.
func (m *modules) get(digest []byte) (dir string, ok bool) {
	dir = filepath.Join(m.dir, hex.EncodeToString(digest))
	if _, err := os.Stat(modulePath(dir)); err != nil {
		return "", false
	}
	now := time.Now()
	_ = os.Chtimes(dir, now, now) // it only decides which one is removed first
	return dir, true
}

// add keeps a module if it has the digest and compile accepts it. compile is given the directory
// with the module, and may add to it.
func (m *modules) add(digest, code []byte, compile func(dir string) error) error {
	if sum := sha256.Sum256(code); !bytes.Equal(sum[:], digest) {
		return fail(ModuleDigest, "")
	}
	if _, ok := m.get(digest); ok {
		return nil
	}
	temp, err := os.MkdirTemp(m.dir, prefixNew)
	if err != nil {
		return fmt.Errorf("keep module: %w", err)
	}
	defer os.RemoveAll(temp)
	if err := os.WriteFile(modulePath(temp), code, 0o600); err != nil {
		return fmt.Errorf("keep module: %w", err)
	}
	if err := compile(temp); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.evict(maxModules - 1); err != nil {
		return fmt.Errorf("remove modules: %w", err)
	}
	err = os.Rename(temp, filepath.Join(m.dir, hex.EncodeToString(digest)))
	if _, ok := m.get(digest); ok {
		return nil // also if another request was faster
	}
	return fmt.Errorf("keep module: %w", err)
}

// evict removes the modules that have not been used for longest, and leaves n.
func (m *modules) evict(n int) error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	type known struct {
		name string
		used time.Time
	}
	var all []known
	for _, e := range entries {
		if info, err := e.Info(); err == nil && len(e.Name()) == 2*sha256.Size {
			all = append(all, known{e.Name(), info.ModTime()})
		}
	}
	order.SortFunc(all, func(a, b known) int {
		return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.name, b.name))
	})
	for _, k := range all[min(n, len(all)):] {
		if err := os.RemoveAll(filepath.Join(m.dir, k.name)); err != nil {
			return err
		}
	}
	return nil
}
