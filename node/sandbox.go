package node

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/landlock-lsm/go-landlock/landlock"

	"peerd/node/config"
)

// systemDirs are what the process reads of the system: name servers, certificates of authorities,
// time zones, the state of the kernel.
var systemDirs = []string{"/etc", "/usr", "/lib", "/lib64", "/nix/store", "/proc", "/run", "/sys",
	"/var/lib/ca-certificates"}

// readFiles returns the files that the process reads: those that the settings name, and its own
// program if it runs plug-ins, which are processes of it. "" names no file.
func readFiles(home config.Home, c config.Config) []string {
	files := []string{os.Getenv("SSL_CERT_FILE")}
	for _, name := range append([]string{c.GeoDB, c.Profile, c.Crawl.Crawllet},
		c.Crawl.CAFiles...) {
		if name != "" {
			files = append(files, home.Path(name))
		}
	}
	if self, err := os.Executable(); err == nil && len(c.Plugins.Publishers) > 0 {
		files = append(files, self)
	}
	return files
}

// Sandbox restricts the files of this process, for good, to the home, to what symbolic links in it
// lead to, and to what the settings name (Landlock, on Linux from 5.13). What is put in the place
// of one of these later, or what a link leads to then, cannot be opened. Temporary files are in the
// home then. Where the kernel does not support that, it does nothing. Files that are open stay
// open.
func Sandbox(home config.Home, c config.Config) error {
	dir, err := filepath.Abs(home.Dir)
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	temp := filepath.Join(dir, "tmp")
	if err := errors.Join(os.MkdirAll(temp, 0o700), os.Setenv("TMPDIR", temp)); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	write := []string{dir}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	for _, e := range entries { // a part of the home may be on another disk
		if to, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name())); err == nil &&
			e.Type()&os.ModeSymlink != 0 {
			write = append(write, to)
		}
	}
	if c.LogFile != "" {
		write = append(write, filepath.Dir(home.Path(c.LogFile)))
	}
	read := slices.Concat(systemDirs, filepath.SplitList(os.Getenv("SSL_CERT_DIR")))
	for _, name := range slices.Sorted(maps.Values(c.LocalSites)) {
		read = append(read, home.Path(name))
	}
	rules := []landlock.Rule{landlock.RODirs(read...).IgnoreIfMissing(),
		landlock.ROFiles(append(readFiles(home, c), "/dev/urandom")...).IgnoreIfMissing(),
		landlock.RWFiles("/dev/null").IgnoreIfMissing()}
	for _, p := range write {
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			rules = append(rules, landlock.RWDirs(p).WithRefer())
		} else if err == nil {
			rules = append(rules, landlock.RWFiles(p))
		}
	}
	if err := landlock.V5.BestEffort().RestrictPaths(rules...); err != nil {
		return fmt.Errorf("sandbox: %w; sandbox = false in config.toml leaves it out", err)
	}
	return nil
}
