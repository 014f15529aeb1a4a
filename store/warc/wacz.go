package warc

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path"
	"time"
)

// waczData is the name of the only WARC file in a WACZ file.
const waczData = "data.warc.gz"

// WACZ writes the selected exchanges as a WACZ file, version 1.1.1
// (https://specs.webrecorder.net/wacz/1.1.1/): the WARC data, their index, a list of the HTML
// pages, and digests. Memory use is limited; a large index needs a temporary file. Damaged records
// are left out as by Extract.
func (r *Reader) WACZ(ctx context.Context, w io.Writer, want Want, software string) error {
	z := &waczWriter{zip: zip.NewWriter(w), now: time.Now().UTC()}
	s := newSorter()
	defer s.close()
	var damaged error
	err := z.add("archive/"+waczData, zip.Store, func(w io.Writer) error {
		var at int64
		err := r.extract(ctx, w, want, map[string]int64{},
			func(rec *Record, head []byte, length int64) error {
				from := at
				at += length
				if !isCapture(rec) {
					return nil
				}
				e := newEntry(rec.Type, rec.URL, rec.Time, head, rec.Location.Digest)
				e.Location = Location{File: waczData, Offset: from, Length: length}
				return s.add(e.appendTo(nil))
			})
		if errors.Is(err, ErrCorrupt) {
			damaged, err = err, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	sorted := s.sources()
	err = z.add("indexes/index.cdx", zip.Deflate, func(w io.Writer) error {
		return merge(ctx, w, sorted)
	})
	if err != nil {
		return err
	}
	err = z.add("pages/pages.jsonl", zip.Deflate, func(w io.Writer) error {
		lines := json.NewEncoder(w)
		if err := lines.Encode(map[string]string{"format": "json-pages-1.0", "id": "pages",
			"title": "All pages"}); err != nil {
			return err
		}
		return merge(ctx, &entryWriter{fn: func(e Entry, _ []byte) error {
			if e.MIME != "text/html" || e.Status != "200" {
				return nil
			}
			return lines.Encode(map[string]string{"url": e.URL, "ts": e.Time.Format(time.RFC3339)})
		}}, sorted)
	})
	if err != nil {
		return err
	}
	if err := z.close(software); err != nil {
		return err
	}
	return damaged
}

// A waczWriter writes the files of a WACZ file and remembers their digests.
type waczWriter struct {
	zip   *zip.Writer
	now   time.Time
	files []waczFile
}

type waczFile struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Hash  string `json:"hash"`
	Bytes int64  `json:"bytes"`
}

// add adds the file that fill writes.
func (z *waczWriter) add(name string, method uint16, fill func(io.Writer) error) error {
	w, err := z.zip.CreateHeader(&zip.FileHeader{Name: name, Method: method, Modified: z.now})
	if err != nil {
		return err
	}
	sum := sha256.New()
	cw := &countWriter{w: io.MultiWriter(w, sum)}
	if err := fill(cw); err != nil {
		return err
	}
	z.files = append(z.files, waczFile{path.Base(name), name,
		"sha256:" + hex.EncodeToString(sum.Sum(nil)), cw.n})
	return nil
}

// close adds the description of the files, and its digest.
func (z *waczWriter) close(software string) error {
	const description = "datapackage.json"
	addJSON := func(name string, v any) error {
		return z.add(name, zip.Deflate, func(w io.Writer) error {
			return json.NewEncoder(w).Encode(v)
		})
	}
	err := addJSON(description, map[string]any{"profile": "data-package", "wacz_version": "1.1.1",
		"software": software, "created": z.now.Format(time.RFC3339), "resources": z.files})
	if err != nil {
		return err
	}
	hash := z.files[len(z.files)-1].Hash
	err = addJSON("datapackage-digest.json", map[string]string{"path": description, "hash": hash})
	if err != nil {
		return err
	}
	return z.zip.Close()
}
