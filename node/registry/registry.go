package registry

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	rir "peerd/coords/registry"
)

// ErrNone means that no registry data has been loaded.
var ErrNone = errors.New("no registry data here; load some with: peerd registry load")

const (
	// suffix is the suffix of stored files.
	suffix = ".delegated"
	// maxBytes bounds a file as it is sent or stored; rir.DefaultLimits bounds its content.
	maxBytes = 256 << 20
	// fetchTimeout bounds the download of a file.
	fetchTimeout = 10 * time.Minute
)

// Info describes a stored file.
type Info struct {
	Registry string
	Day      string    // the last day that it covers, as YYYYMMDD
	Loaded   time.Time // when it was stored
	Entries  int       // blocks of addresses
	Faulty   int       // lines that are not valid
}

// Load reads a delegated file, plain or gzip, from a path or an http(s) URL, and stores it in dir
// in place of the previous file of the same registry, which is unchanged if there is an error.
func Load(ctx context.Context, dir, userAgent, source string) (*rir.File, error) {
	read := os.ReadFile
	if strings.Contains(source, "://") {
		read = func(url string) ([]byte, error) { return fetch(ctx, userAgent, url) }
	}
	data, err := read(source)
	if err != nil {
		return nil, err
	}
	file, err := Store(dir, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return file, nil
}

// fetch returns the content of a URL.
func fetch(ctx context.Context, userAgent, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if s := req.URL.Scheme; req.URL.Host == "" || s != "http" && s != "https" {
		return nil, fmt.Errorf("%s: want a file, or a URL with http:// or https://", url)
	}
	req.Header.Set("User-Agent", userAgent)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err // names the URL
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: the server answered %s", url, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	if err == nil && len(data) > maxBytes {
		err = fmt.Errorf("more than %d bytes", maxBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return data, nil
}

// Store stores the content of a delegated file, plain or gzip, if it is valid.
func Store(dir string, data []byte) (*rir.File, error) {
	file, err := parse(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return file, renameio.WriteFile(filepath.Join(dir, nameOf(file)+suffix), data, 0o644)
}

// parse parses a file, plain or gzip.
func parse(r io.Reader) (*rir.File, error) {
	in := bufio.NewReader(io.LimitReader(r, maxBytes))
	r = in
	if head, _ := in.Peek(2); string(head) == "\x1f\x8b" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("invalid gzip: %w", err)
		}
		r = z
	}
	return rir.Parse(r, rir.DefaultLimits())
}

// nameOf returns the registry of a file, from its version line or else its entries.
func nameOf(f *rir.File) string {
	if f.Header.Registry == "" && len(f.Entries) > 0 {
		return f.Entries[0].Registry
	}
	return cmp.Or(f.Header.Registry, "unknown")
}

// Open returns the table of all files in dir, with IANA's blocks as roots, and their
// descriptions. If there is no file, the error matches ErrNone. If files are damaged, the error
// names them, and the table of the other files is returned, if there are any.
func Open(dir string) (*rir.Table, []Info, error) {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	var infos []Info
	var all []rir.Entry
	var bad error
	for _, d := range list {
		if !strings.HasSuffix(d.Name(), suffix) {
			continue
		}
		info, entries, err := read(filepath.Join(dir, d.Name()))
		if err != nil {
			bad = errors.Join(bad, err)
			continue
		}
		infos, all = append(infos, info), append(all, entries...)
	}
	if len(infos) == 0 {
		return nil, nil, cmp.Or(bad, fmt.Errorf("%s: %w", dir, ErrNone))
	}
	// Build accepts one of two entries with the same prefix.
	table, err := rir.Build(rir.WithRoots(all))
	return table, infos, errors.Join(bad, err)
}

// read reads a stored file.
func read(path string) (Info, []rir.Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return Info{}, nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return Info{}, nil, err
	}
	file, err := parse(f)
	if err != nil {
		return Info{}, nil, fmt.Errorf("%s: %w; load it again with: peerd registry load", path, err)
	}
	return Info{Registry: nameOf(file), Day: file.Header.End, Loaded: stat.ModTime(),
		Entries: len(file.Entries), Faulty: file.Faulty}, file.Entries, nil
}
