package crawllet

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"peerd/crawl/canon"
	"peerd/crawl/robots"
)

// DefaultTypes are the extensions of the files that crawllets read by default: pages, and not the
// sources, data and keys that may lie beside them.
var DefaultTypes = []string{".html", ".htm", ".xhtml", ".txt", ".md", ".xml", ".pdf"}

// siteFS is the file system of a crawllet. It implements fs.FS. It is used by one goroutine.
type siteFS struct {
	root   *os.Root
	prefix string
	agent  string
	types  []string
	rules  *robots.Rules
	limit  uint32 // of files that are read

	read     atomic.Uint32 // files
	exceeded atomic.Bool   // one more was to be read
}

// Open implements fs.FS. It opens directories, so that they can be told from files, but they
// cannot be listed. A file that the site does not serve is a fs.ErrPermission, whether it exists or
// not.
func (s *siteFS) Open(name string) (fs.File, error) {
	refused := &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	if !fs.ValidPath(name) || hidden(name) {
		return nil, refused
	}
	// A FIFO would block the open without O_NONBLOCK.
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		switch {
		case !s.serves(name):
			err = refused
		case errors.Is(err, syscall.ENOTDIR): // tells that a file exists that may not be served
			err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return &siteDir{f}, nil
	}
	if err == nil && (!info.Mode().IsRegular() || !s.serves(name)) {
		err = refused
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &siteFile{f: f, site: s}, nil
}

// hidden reports whether an element of the path begins with a dot.
func hidden(name string) bool {
	return name != "." && slices.ContainsFunc(strings.Split(name, "/"), func(e string) bool {
		return strings.HasPrefix(e, ".")
	})
}

// serves reports whether crawllets may read a file, by its extension and robots.txt.
func (s *siteFS) serves(name string) bool {
	if !slices.Contains(s.types, strings.ToLower(path.Ext(name))) {
		return false
	}
	escaped := (&url.URL{Path: name}).EscapedPath()
	return s.allowed(escaped) &&
		(path.Base(name) != "index.html" || s.allowed(strings.TrimSuffix(escaped, "index.html")))
}

// allowed reports whether robots.txt allows a path below the prefix.
func (s *siteFS) allowed(escaped string) bool {
	u, err := canon.Parse(s.prefix + escaped)
	return err == nil && s.rules.Allowed(s.agent, u)
}

// siteFile is a file. It counts as a page with the first read.
type siteFile struct {
	f       *os.File
	site    *siteFS
	counted bool
}

func (f *siteFile) Stat() (fs.FileInfo, error) { return f.f.Stat() }

func (f *siteFile) Close() error { return f.f.Close() }

func (f *siteFile) Read(p []byte) (int, error) {
	if !f.counted {
		if f.site.read.Load() >= f.site.limit {
			f.site.exceeded.Store(true)
			return 0, syscall.EDQUOT
		}
		f.site.read.Add(1)
		f.counted = true
	}
	return f.f.Read(p)
}

// siteDir is a directory that cannot be listed.
type siteDir struct{ f *os.File }

func (d *siteDir) Stat() (fs.FileInfo, error) { return d.f.Stat() }

func (d *siteDir) Close() error { return d.f.Close() }

func (d *siteDir) Read([]byte) (int, error) { return 0, syscall.EISDIR }

// ReadDir implements fs.ReadDirFile.
func (d *siteDir) ReadDir(int) ([]fs.DirEntry, error) {
	return nil, &fs.PathError{Op: "readdir", Path: d.f.Name(), Err: fs.ErrPermission}
}
