package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestInit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	h, err := Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	for path, perm := range map[string]os.FileMode{h.KeyFile(): 0o600, h.ConfigFile(): 0o644,
		dir: 0o700} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != perm {
			t.Errorf("%s: mode %v, %v; want %v", path, info.Mode(), err, perm)
		}
	}
	if _, err := h.Load(); err != nil {
		t.Error(err)
	}
	id, err := h.PeerID()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := again.PeerID(); err != nil || same != id {
		t.Errorf("second PeerID() = %s, %v, want %s", same, err, id)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("files in the home: %v, %v", entries, err)
	}
}

func TestInitNeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	h, err := Init(dir)
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(h.KeyFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.ConfigFile(), []byte("# mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(dir); !errors.Is(err, ErrExists) {
		t.Errorf("Init() of a home: %v, want ErrExists", err)
	}
	// Cut short between the two files, it is finished by the next one.
	if err := os.Remove(h.KeyFile()); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(dir); err != nil {
		t.Errorf("Init() of an incomplete home: %v", err)
	}
	if text, _ := os.ReadFile(h.ConfigFile()); string(text) != "# mine\n" {
		t.Errorf("Init() changed config.toml to %q", text)
	}
	if fresh, _ := os.ReadFile(h.KeyFile()); bytes.Equal(fresh, key) {
		t.Error("two homes have the same identity")
	}
}

func TestCreateFileReplacesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.Symlink("nowhere", path); err != nil {
		t.Fatal(err)
	}
	if err := createFile(path, []byte("y"), 0o600); !errors.Is(err, os.ErrExist) {
		t.Errorf("createFile() through a dangling link: %v, want ErrExist", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	tests := []struct {
		name   string
		damage func(Home) error
		want   error
	}{
		{"no key", func(h Home) error { return os.Remove(h.KeyFile()) }, ErrNoHome},
		{"open to others", func(h Home) error { return os.Chmod(h.KeyFile(), 0o644) }, ErrKey},
		{"garbage", func(h Home) error {
			return os.WriteFile(h.KeyFile(), []byte("garbage"), 0o600)
		}, ErrKey},
		{"cut", func(h Home) error { return os.Truncate(h.KeyFile(), 30) }, ErrKey},
		{"empty", func(h Home) error { return os.Truncate(h.KeyFile(), 0) }, ErrKey},
		{"a directory", func(h Home) error {
			return errors.Join(os.Remove(h.KeyFile()), os.Mkdir(h.KeyFile(), 0o700))
		}, ErrKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			h, err := Init(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.damage(h); err != nil {
				t.Fatal(err)
			}
			h, err = Open(dir)
			if err == nil {
				_, err = h.PeerID()
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("Open() error = %v, want %v", err, tt.want)
			}
		})
	}
	if _, err := Open(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, ErrNoHome) {
		t.Errorf("Open() of a missing directory: %v, want ErrNoHome", err)
	}
}

func TestHomePath(t *testing.T) {
	h := Home{Dir: "/h"}
	if got := h.Path("p.toml"); got != "/h/p.toml" {
		t.Error(got)
	}
	if got := h.Path("/etc/p.toml"); got != "/etc/p.toml" {
		t.Error(got)
	}
}
