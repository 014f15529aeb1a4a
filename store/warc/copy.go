package warc

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Copy is a folder with copies of the files of another archive, which grow as those do. Its Reader
// sees the complete exchanges. One goroutine at a time calls Write and Remove.
//
// The files have the names of files that are being written. Their logs have no index lines.
type Copy struct{ Reader }

// Part is the part of a file that was copied, from its begin on.
type Part struct {
	Size int64 `cbor:"1,keyasint"`
	// Sum is a digest of its last bytes, which identifies the file: records have random names.
	Sum []byte `cbor:"2,keyasint"`
}

// tailSize is the number of bytes of which Sum is the digest.
const tailSize = 4 << 10

// OpenCopy opens the copy in dir and creates the folder if it does not exist.
func OpenCopy(dir string) (*Copy, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("warc: %w", err)
	}
	return &Copy{Reader{dir: dir}}, nil
}

// CheckFile checks the name of a file that another peer has sent.
func CheckFile(name string) error {
	const maxName = 200 // bytes
	if len(name) > maxName || !strings.HasSuffix(name, warcSuffix) || name[0] == '.' ||
		strings.ContainsAny(name, "/\\\x00") {
		return fmt.Errorf("warc: file name %.*q", maxName, name)
	}
	return nil
}

// Parts returns what was copied, by file.
func (c *Copy) Parts() (map[string]Part, error) {
	names, _, err := list(c.dir)
	if err != nil {
		return nil, fmt.Errorf("warc: %w", err)
	}
	all := map[string]Part{}
	for _, name := range names {
		size, err := c.size(name)
		if err != nil {
			return nil, err
		}
		if all[name], err = c.Part(name, size); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// size returns the size of a copied file, 0 if there is none.
func (c *Copy) size(name string) (int64, error) {
	info, err := os.Stat(filepath.Join(c.dir, openName(name)))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("warc: %w", err)
	}
	return info.Size(), nil
}

// Write appends data at an offset, which is the size of the copied file, or 0 to begin again.
// whole says that the data ends after a complete exchange. A write that fails is undone.
func (c *Copy) Write(name string, at int64, data []byte, whole bool) error {
	size, err := c.size(name)
	if err == nil && at == 0 && size > 0 {
		err = c.Remove(name)
		size = 0
	}
	if err == nil && at != size {
		err = fmt.Errorf("warc: copy of %s: %d bytes, want to write at %d", name, size, at)
	}
	if err != nil {
		return err
	}
	path := filepath.Join(c.dir, openName(name))
	err = appendFile(path, data)
	if err == nil && whole {
		end := at + int64(len(data))
		err = appendFile(filepath.Join(c.dir, logName(name)), appendEvent(nil, end, nil))
	}
	if err != nil {
		return errors.Join(noSpaceError(err), ignoreMissing(os.Truncate(path, size)))
	}
	return nil
}

// appendFile appends all of data to a file, or nothing. A log would end at a part of a line.
func appendFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		if _, err = f.Write(data); err != nil {
			err = errors.Join(err, f.Truncate(info.Size()))
		}
	}
	return errors.Join(err, f.Close())
}

// Remove deletes a copied file.
func (c *Copy) Remove(name string) error {
	if err := removeOpen(c.dir, name); err != nil {
		return fmt.Errorf("warc: %w", err)
	}
	return nil
}

// Part returns the part of a file up to an offset.
func (r *Reader) Part(name string, end int64) (Part, error) {
	tail, err := r.ReadPart(name, max(0, end-tailSize), end)
	sum := sha256.Sum256(tail)
	return Part{end, sum[:16]}, err
}

// ReadPart returns the bytes of a file between two offsets.
func (r *Reader) ReadPart(name string, from, to int64) ([]byte, error) {
	f, err := openWARC(r.dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, to-from)
	if n, err := f.ReadAt(data, from); n < len(data) {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("warc: read %s: %w", name, err)
	}
	return data, nil
}
