package crawllet

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"strings"

	"peerd/crawl/crawllet/record"
)

// Lines writes records as JSON lines, with the bodies in base64.
type Lines struct{ enc *json.Encoder }

// NewLines returns a target that writes to w.
func NewLines(w io.Writer) *Lines {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &Lines{enc}
}

// Write implements Target.
func (l *Lines) Write(r record.Record) error {
	return l.enc.Encode(struct {
		record.Record
		Digest string `json:"digest,omitempty"`
	}{r, hex.EncodeToString(r.Digest)})
}

// Dir writes pages as files below a directory, named like their URLs, and records without bodies
// to index.jsonl in it.
type Dir struct {
	root  *os.Root
	index *os.File
	lines *Lines
	// Unnamed is the number of pages that have no file, because of their names.
	Unnamed int
}

// indexName begins with a dash, which no name of a page does.
const indexName = "-index.jsonl"

// OpenDir creates the directory if necessary.
func OpenDir(name string) (*Dir, error) {
	if err := os.MkdirAll(name, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	f, err := root.Create(indexName)
	if err != nil {
		root.Close()
		return nil, err
	}
	return &Dir{root: root, index: f, lines: NewLines(f)}, nil
}

// Close closes the files.
func (d *Dir) Close() error {
	err := d.index.Close()
	if e := d.root.Close(); err == nil {
		err = e
	}
	return err
}

// Write implements Target. Names come from the site: those that cannot be files, or are in use,
// are skipped.
func (d *Dir) Write(r record.Record) error {
	if len(r.Body) > 0 {
		name, ok := fileName(r.URL)
		if !ok || d.root.MkdirAll(path.Dir(name), 0o755) != nil ||
			d.root.WriteFile(name, r.Body, 0o644) != nil {
			d.Unnamed++
		}
	}
	r.Body = nil
	if err := d.lines.Write(r); err != nil {
		return fmt.Errorf("write %s: %w", indexName, err)
	}
	return nil
}

// fileName returns the name of the file for a page.
func fileName(u string) (string, bool) {
	parsed, err := url.Parse(u)
	if err != nil {
		return "", false
	}
	name := parsed.Path
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	return name, name != "" && !strings.HasPrefix(name, "-")
}
