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

// ErrStored means that a stored file was not written by Load, or is damaged.
var ErrStored = errors.New(
	"registry: unusable stored file; load it again with: peerd registry load")

// Info describes a delegated file.
type Info struct {
	// Registry is the registry that published it, under which it is stored.
	Registry string `json:"registry"`
	// Source is the path or URL of the file.
	Source string `json:"source"`
	// Loaded is the time of loading.
	Loaded time.Time `json:"loaded"`
	// Version, Serial and Day are those of its version line. Day is the last day that it covers,
	// as YYYYMMDD.
	Version string `json:"version"`
	Serial  string `json:"serial"`
	Day     string `json:"day"`
	// Records counts its records, including invalid ones. IPv4, IPv6 and ASN count the valid
	// ones; Free counts those of addresses without holder.
	Records int `json:"records"`
	IPv4    int `json:"ipv4"`
	IPv6    int `json:"ipv6"`
	ASN     int `json:"asn"`
	Free    int `json:"free"`
	// Entries is the number of address blocks in it.
	Entries int `json:"entries"`
	// Faulty counts its faults; Faults describes the first of them.
	Faulty int      `json:"faulty"`
	Faults []string `json:"faults"`
	// ETag and Modified are the validators of the server.
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
}

// usable returns the number of valid records.
func (i Info) usable() int { return i.IPv4 + i.IPv6 + i.ASN }

const (
	// suffix is the suffix of stored files.
	suffix = ".rir"
	// storedMagic is the start of a stored file. It is followed by the length of the Info (4
	// bytes, big endian), the Info as JSON, and the entries (registry.Encode) as zstd.
	storedMagic = "peerd delegated 1\n"
	maxInfo     = 1 << 20
	// maxStored bounds a stored file, maxUnpacked its decompressed entries: all registries
	// together need 10 and 25 MB.
	maxStored   = 128 << 20
	maxUnpacked = 512 << 20
)

// path returns the stored file of a registry.
func path(dir, registry string) string { return filepath.Join(dir, registry+suffix) }

// write stores a file atomically. dir must exist.
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
		return fmt.Errorf("registry: description of %s: %d bytes are too many",
			info.Registry, len(head))
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

// Save stores entries that do not come from a file, under info.Registry. The error wraps
// rir.ErrEntry if an entry is invalid.
func Save(dir string, info Info, entries []rir.Entry) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	info.Entries = len(entries)
	return write(dir, info, entries)
}

// readInfo reads the header of a stored file. Its errors match ErrStored if the content is
// invalid.
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
	if err := json.Unmarshal(text, &info); err != nil ||
		info.Registry != strings.TrimSuffix(filepath.Base(name), suffix) {
		return info, fmt.Errorf("%s: %w", name, ErrStored)
	}
	return info, nil
}

// read returns the content of a stored file.
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
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(maxUnpacked))
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
