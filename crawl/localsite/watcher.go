package localsite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"peerd/crawl/extract"
	"peerd/crawl/similar"
)

// Files are often written in several steps. Changes are announced when there was no event for
// quiet, and at the latest after longest times that.
const (
	quiet   = time.Second
	longest = 5
)

// retryAfter is the wait after changes could not be announced.
const retryAfter = 10 * time.Second

// Watcher watches one site.
type Watcher struct {
	cfg   Config
	log   *slog.Logger
	quiet time.Duration

	root     *os.Root
	events   *fsnotify.Watcher  // nil: the system has no more; all is found by comparing
	dirs     map[string]bool    // directories that events watches
	versions map[string]Version // of the files that exist, as announced
	first    bool               // the site was never read before
	pending  map[string]bool    // files that may differ from versions
	// announceAt is when pending is announced, and announceBy the latest time for that. rescanAt
	// is the time of the next comparison of all files. After a failure nothing is announced before
	// retryAt.
	announceAt, announceBy, rescanAt, retryAt time.Time
}

// New returns a Watcher, or all that is wrong with c.
func New(c Config) (*Watcher, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return &Watcher{cfg: c, log: c.Logger.With("site", c.URL), quiet: quiet,
		pending: map[string]bool{}}, nil
}

// Run watches the site until ctx ends. A directory that cannot be read is logged, and read again
// after Config.Rescan: its pages do not count as deleted. Run returns an error only if the versions
// cannot be read from the store. It must be called once.
func (w *Watcher) Run(ctx context.Context) (err error) {
	if w.versions, err = w.cfg.Announcer.Versions(w.cfg.URL); err != nil {
		return fmt.Errorf("localsite: %w", err)
	}
	if w.first = len(w.versions) == 0; w.first {
		w.versions = map[string]Version{}
	}
	defer w.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var events <-chan fsnotify.Event
		var failures <-chan error
		if w.events != nil {
			events, failures = w.events.Events, w.events.Errors
		}
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			w.handle(e)
		case err := <-failures: // such as a queue of events that was full
			w.log.Warn("lost file events; comparing all files", "err", err)
			w.rescanAt = time.Now()
		case <-timer.C:
		}
		now := time.Now()
		if !now.Before(w.rescanAt) {
			w.rescan()
			w.rescanAt = now.Add(w.cfg.Rescan)
		}
		if len(w.pending) > 0 && !now.Before(w.announceAt) {
			w.announce(ctx)
		}
		next := w.rescanAt
		if len(w.pending) > 0 && w.announceAt.Before(next) {
			next = w.announceAt
		}
		timer.Reset(time.Until(next))
	}
}

// close ends what rescan has begun.
func (w *Watcher) close() {
	if w.root != nil {
		_ = w.root.Close()
		w.root = nil
	}
	if w.events != nil {
		_ = w.events.Close()
		w.events = nil
	}
}

// handle notes which files an event is about.
func (w *Watcher) handle(e fsnotify.Event) {
	name, err := filepath.Rel(w.cfg.Root, e.Name)
	if err != nil || e.Op == fsnotify.Chmod || w.root == nil {
		return
	}
	name = filepath.ToSlash(name)
	switch {
	case name == ".": // the root was removed, or moved
		w.rescanAt = time.Now()
	case hidden(path.Base(name)):
	case isPage(path.Base(name)):
		w.note(name)
	case e.Has(fsnotify.Create):
		if info, err := w.root.Lstat(name); err == nil && info.IsDir() {
			w.scan(name, map[string]bool{})
		}
	case e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename):
		for known := range w.versions {
			if strings.HasPrefix(known, name+"/") {
				w.note(known)
			}
		}
		// The directories below one that was moved are still watched, under their old names. All
		// are watched again, once for several moves.
		if at := time.Now().Add(w.quiet); w.dirs[name] && e.Has(fsnotify.Rename) &&
			at.Before(w.rescanAt) {
			w.rescanAt = at
		}
		delete(w.dirs, name)
	}
}

// note has a file compared with its version soon.
func (w *Watcher) note(name string) {
	now := time.Now()
	if len(w.pending) == 0 {
		w.announceBy = now.Add(longest * w.quiet)
	}
	w.pending[name] = true
	w.announceAt = now.Add(w.quiet)
	if w.announceAt.After(w.announceBy) {
		w.announceAt = w.announceBy
	}
	if w.announceAt.Before(w.retryAt) {
		w.announceAt = w.retryAt
	}
}

// rescan compares all files with their versions, and watches all directories again.
func (w *Watcher) rescan() {
	w.close() // other directories may be at their paths now
	root, err := os.OpenRoot(w.cfg.Root)
	if err != nil {
		w.log.Error("failed to read local site", "err", err, "retry_in", w.cfg.Rescan)
		return
	}
	w.root, w.dirs = root, map[string]bool{}
	if w.events, err = fsnotify.NewWatcher(); err != nil {
		w.events = nil
		w.log.Warn("failed to watch files; changes are found by comparing",
			"every", w.cfg.Rescan, "err", err)
	}
	found := map[string]bool{}
	if !w.scan(".", found) {
		return // what was not found may be in a directory that could not be read
	}
	for name := range w.versions {
		if !found[name] {
			w.note(name)
		}
	}
}

// scan watches a directory and those below it, notes the pages that differ from their versions, and
// adds all pages to found. It reports whether everything could be read.
func (w *Watcher) scan(dir string, found map[string]bool) (complete bool) {
	complete = true
	err := fs.WalkDir(w.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			if !errors.Is(err, fs.ErrNotExist) { // else it was deleted meanwhile
				complete = false
				w.log.Warn("failed to read part of local site", "path", name, "err", err)
			}
			return nil
		case d.IsDir() && hidden(d.Name()):
			return fs.SkipDir
		case d.IsDir():
			w.watch(name)
			return nil
		case !d.Type().IsRegular() || !isPage(d.Name()):
			return nil
		}
		found[name] = true
		if v, err := w.version(name); err == nil && !v.sameFile(w.versions[name]) {
			w.note(name)
		}
		return nil
	})
	return complete && err == nil
}

// watch asks for the events of a directory. It must be called before the directory is read.
func (w *Watcher) watch(dir string) {
	if w.events == nil {
		return
	}
	err := w.events.Add(filepath.Join(w.cfg.Root, filepath.FromSlash(dir)))
	switch {
	case err == nil:
		w.dirs[dir] = true
	case !errors.Is(err, fs.ErrNotExist):
		w.log.Warn("failed to watch directory; its changes are found by comparing",
			"path", dir, "every", w.cfg.Rescan, "err", err)
	}
}

// version returns the version of a file, which is zero if there is none.
func (w *Watcher) version(name string) (Version, error) {
	info, err := w.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular():
		return Version{}, nil
	case err != nil:
		return Version{}, err
	}
	return Version{Size: info.Size(), ModTime: info.ModTime().UnixNano()}, nil
}

// maxRead is the size up to which files are read to compare them. Changes of larger ones, and of
// those that cannot be read, are never trivial.
const maxRead = 4 << 20

// read adds to a version what is in the file.
func (w *Watcher) read(name string, v Version) Version {
	all := urls(w.cfg.URL, name, true)
	if v == (Version{}) || v.Size > maxRead || len(all) == 0 {
		return v
	}
	f, err := w.root.Open(name)
	if err != nil {
		return v
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRead))
	if err != nil {
		return v
	}
	h := http.Header{"Content-Type": {Type(name)}}
	doc, err := extract.Page(text, h, all[0], extract.Options{Text: maxRead})
	if err != nil {
		return v
	}
	links := fnv.New64a()
	fmt.Fprintln(links, doc.Canonical, doc.Robots)
	for _, l := range doc.Links {
		fmt.Fprintln(links, l.URL)
	}
	v.Gist, v.Links = uint64(similar.Gist(doc.Text)), links.Sum64()
	return v
}

// announce announces the files of pending that differ from their versions. After an error it is
// called again later.
func (w *Watcher) announce(ctx context.Context) {
	if w.root == nil { // until rescan can open it
		w.announceAt = w.rescanAt
		return
	}
	total, trivial := 0, 0
	for len(w.pending) > 0 && ctx.Err() == nil {
		var part []string
		var changes []Change
		for name := range w.pending {
			if len(part) == maxChanges {
				break
			}
			part = append(part, name)
			v, err := w.version(name)
			old := w.versions[name]
			if err != nil || v.sameFile(old) {
				continue // unreadable: it is compared again by rescan
			}
			c := Change{Path: name, Version: w.read(name, v), Changed: !w.first}
			if c.Version.trivial(old) {
				c.Version.Gist = old.Gist // many small changes are a large one
				trivial++
			} else {
				c.URLs = urls(w.cfg.URL, name, c.Changed)
			}
			changes = append(changes, c)
		}
		if len(changes) > 0 {
			if err := w.cfg.Announcer.Announce(w.cfg.URL, changes); err != nil {
				w.log.Error("failed to announce changed pages", "files", len(w.pending),
					"err", err, "retry_in", retryAfter)
				w.retryAt = time.Now().Add(retryAfter)
				w.announceAt = w.retryAt
				return
			}
		}
		for _, c := range changes {
			if w.versions[c.Path] = c.Version; c.Version == (Version{}) {
				delete(w.versions, c.Path)
			}
		}
		for _, name := range part {
			delete(w.pending, name)
		}
		total += len(changes)
	}
	if total > 0 {
		w.log.Info("announced pages of local site", "files", total-trivial, "trivial", trivial,
			"first_time", w.first)
	}
	w.first = w.first && ctx.Err() != nil
}
