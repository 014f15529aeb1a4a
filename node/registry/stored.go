package registry

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/klauspost/compress/zstd"

	rir "peerd/coords/registry"
)

// ErrStored says that a stored file is not one that Load wrote, or is damaged.
var ErrStored = errors.New("registry: unusable stored file; load it again with: peerd registry load")

// Info is what is remembered of a delegated file.
type Info struct {
	// Registry is who published it, and the name under which it is stored.
	Registry string `json:"registry"`
	// Source is the path or URL that it came from.
	Source string `json:"source"`
	// Loaded is when that was, by this peer's clock.
	Loaded time.Time `json:"loaded"`
	// Version, Serial and Day are those of its version line; Day is the last day
	// it tells of, as YYYYMMDD.
	Version string `json:"version"`
	Serial  string `json:"serial"`
	Day     string `json:"day"`
	// Records counts its records, broken ones included; IPv4, IPv6 and ASN the
	// good ones, Free those of addresses that nobody holds.
	Records int `json:"records"`
	IPv4    int `json:"ipv4"`
	IPv6    int `json:"ipv6"`
	ASN     int `json:"asn"`
	Free    int `json:"free"`
	// Entries is how many blocks of addresses came of it.
	Entries int `json:"entries"`
	// Faulty counts its faults, and Faults has the first of them in words.
	Faulty int      `json:"faulty"`
	Faults []string `json:"faults"`
	// ETag and Modified are the server's, for the next time.
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
}

// good is the number of records that could be used.
func (i Info) good() int { return i.IPv4 + i.IPv6 + i.ASN }

const (
	// suffix ends the names of stored files.
	suffix = ".rir"
	// storedMagic begins them: then the length of the Info (4 bytes, big endian),
	// the Info as JSON, and the entries (registry.Encode) as zstd.
	storedMagic = "peerd delegated 1\n"
	maxInfo     = 1 << 20
	// maxStored bounds a stored file, maxUnpacked its entries: all registries
	// together need 10 and 25 MB.
	maxStored   = 128 << 20
	maxUnpacked = 512 << 20
)

// path is the stored file of a registry.
func path(dir, registry string) string { return filepath.Join(dir, registry+suffix) }

// write stores a file whole or not at all. dir must exist.
func write(dir string, info Info, entries []rir.Entry) error {
	packed, err := rir.Encode(entries)
	if err != nil {
		return err
	}
	head, err := json.Marshal(info)
	if err != nil {
		return err
	}
	if len(head) > maxInfo {
		return fmt.Errorf("registry: %d bytes about %s are too many", len(head), info.Registry)
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	out := []byte(storedMagic)
	out = binary.BigEndian.AppendUint32(out, uint32(len(head)))
	out = enc.EncodeAll(packed, append(out, head...))
	return renameio.WriteFile(path(dir, info.Registry), out, 0o644)
}

// Save stores entries that come from no file, under info.Registry, as Load would.
// The error wraps rir.ErrEntry if an entry is bad.
func Save(dir string, info Info, entries []rir.Entry) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	info.Entries = len(entries)
	return write(dir, info, entries)
}

// readInfo reads the beginning of a stored file. Its errors match ErrStored
// where the content is to blame.
func readInfo(r io.Reader, name string) (Info, error) {
	var info Info
	head := make([]byte, len(storedMagic)+4)
	if _, err := io.ReadFull(r, head); err != nil || !bytes.HasPrefix(head, []byte(storedMagic)) {
		return info, fmt.Errorf("%s: %w", name, ErrStored)
	}
	n := binary.BigEndian.Uint32(head[len(storedMagic):])
	if n > maxInfo {
		return info, fmt.Errorf("%s: %w", name, ErrStored)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return info, fmt.Errorf("%s: %w", name, ErrStored)
	}
	if err := json.Unmarshal(text, &info); err != nil || info.Registry != strings.TrimSuffix(filepath.Base(name), suffix) {
		return info, fmt.Errorf("%s: %w", name, ErrStored)
	}
	return info, nil
}

// read returns a whole stored file.
func read(name string) (Info, []rir.Entry, error) {
	f, err := os.Open(name)
	if err != nil {
		return Info{}, nil, err
	}
	defer f.Close()
	in := io.LimitReader(f, maxStored+1)
	info, err := readInfo(in, name)
	if err != nil {
		return info, nil, err
	}
	packed, err := io.ReadAll(in)
	if err != nil {
		return info, nil, err
	}
	if len(packed) > maxStored {
		return info, nil, fmt.Errorf("%s: %w", name, ErrStored)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxUnpacked))
	if err != nil {
		return info, nil, err
	}
	defer dec.Close()
	plain, err := dec.DecodeAll(packed, nil)
	if err != nil {
		return info, nil, fmt.Errorf("%s: %w", name, ErrStored)
	}
	entries, err := rir.Decode(plain)
	if err != nil {
		return info, nil, fmt.Errorf("%s: %w", name, ErrStored)
	}
	return info, entries, nil
}
