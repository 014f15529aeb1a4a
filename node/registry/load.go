package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	rir "peerd/coords/registry"
)

// ErrShrunk means that a file has far fewer records than the stored one.
var ErrShrunk = errors.New("too few records")

// Options are the options of Load.
type Options struct {
	// Force accepts a file that has over 5% fewer records than the stored one.
	Force bool
	// MaxBytes bounds the size of a file before decompression. > 0.
	MaxBytes int64
	// Limits bounds its decompressed content.
	Limits rir.Limits
	// Client fetches URLs; nil: http.DefaultClient.
	Client *http.Client
	// UserAgent is sent to servers.
	UserAgent string
	// Progress, unless nil, is called about once a second with the bytes read so far and the
	// size; the size is -1 if it is unknown.
	Progress func(name string, done, size int64)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// DefaultOptions accept files of up to 256 MiB within ten minutes.
func DefaultOptions() Options {
	return Options{
		MaxBytes: 256 << 20, Limits: rir.DefaultLimits(),
		Client: &http.Client{Timeout: 10 * time.Minute},
	}
}

// Result is the result for one file or URL.
type Result struct {
	Source string
	// Info describes the stored file; the previous one if NotModified.
	Info Info
	// NotModified means that the server has nothing newer.
	NotModified bool
	// Err is why nothing was stored. The previous file is unchanged then.
	Err error
}

// maxShrink is the share of records that may be missing in comparison with the stored file.
const maxShrink = 0.05

// Load reads delegated files, plain or gzip, from paths and http(s) URLs, and stores each in dir
// in place of the previous file of the same registry. A file that fails affects neither its
// predecessor nor the others. The error is about dir, or that of ctx. Only one Load may run on a
// dir at a time.
func Load(ctx context.Context, dir string, o Options, sources ...string) ([]Result, error) {
	if err := o.Limits.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	var all []Result
	for _, s := range sources {
		r := Result{Source: s}
		r.Info, r.NotModified, r.Err = o.load(ctx, dir, s)
		if err := ctx.Err(); err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// load loads one file.
func (o Options) load(ctx context.Context, dir, name string) (info Info, same bool, err error) {
	stored, _ := List(dir) // damaged files are replaced or not needed
	var before Info
	for _, i := range stored {
		if i.Source != name || !isURL(name) || o.Force {
			continue
		}
		// the stored file can be used
		if _, _, err := read(path(dir, i.Registry)); err == nil {
			before = i
		}
	}
	s, err := o.open(ctx, name, before)
	if errors.Is(err, errNotModified) {
		return before, true, nil
	}
	if err != nil {
		return info, false, err
	}
	defer s.body.Close()
	file, err := rir.Parse(s, o.Limits)
	if err != nil {
		return info, false, fmt.Errorf("%s: %w", name, err)
	}
	now := time.Now
	if o.Now != nil {
		now = o.Now
	}
	info = Info{
		Registry: registryOf(file), Source: name, Loaded: now().UTC().Truncate(time.Second),
		Version: file.Header.Version, Serial: file.Header.Serial, Day: file.Header.End,
		Records: file.Records, IPv4: file.IPv4, IPv6: file.IPv6, ASN: file.ASN, Free: file.Free,
		Entries: len(file.Entries), Faulty: file.Faulty, Faults: []string{}, ETag: s.etag,
		Modified: s.modified,
	}
	for _, f := range file.Faults {
		info.Faults = append(info.Faults, f.String())
	}
	if info.Registry == "" {
		return info, false, fmt.Errorf("%s: the registry is not named", name)
	}
	for _, i := range stored {
		if i.Registry == info.Registry && !o.Force &&
			float64(info.usable()) < float64(i.usable())*(1-maxShrink) {
			return info, false, fmt.Errorf("%s: %w: %d usable records, "+
				"but the stored file from %s has %d; accept it with --force",
				name, ErrShrunk, info.usable(), i.Source, i.usable())
		}
	}
	if err := write(dir, info, file.Entries); err != nil {
		return info, false, fmt.Errorf("%s: %w", name, err)
	}
	return info, false, nil
}

// registryOf returns the registry of a file, from its version line or else its entries.
func registryOf(f *rir.File) string {
	if f.Header.Registry != "" {
		return f.Header.Registry
	}
	if len(f.Entries) > 0 {
		return f.Entries[0].Registry
	}
	return ""
}
