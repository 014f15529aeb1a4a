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

// ErrShrunk says that a file has far fewer records than the one before.
var ErrShrunk = errors.New("it shrank")

// Options say how files are loaded.
type Options struct {
	// Force takes a file that shrank by more than a twentieth.
	Force bool
	// MaxBytes bounds a file as it comes, gzip or not. > 0.
	MaxBytes int64
	// Limits bound it unpacked.
	Limits rir.Limits
	// Client fetches URLs; nil: http.DefaultClient.
	Client *http.Client
	// UserAgent is sent to servers.
	UserAgent string
	// Progress, if not nil, hears about every second how many bytes of how many
	// have come; size is -1 if nobody knows.
	Progress func(name string, done, size int64)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// DefaultOptions take files of up to 256 MiB within ten minutes.
func DefaultOptions() Options {
	return Options{
		MaxBytes: 256 << 20, Limits: rir.DefaultLimits(),
		Client: &http.Client{Timeout: 10 * time.Minute},
	}
}

// Result is what became of one file or URL.
type Result struct {
	Source string
	// Info is what is stored now; that of before if Same.
	Info Info
	// Same says that the server has nothing newer.
	Same bool
	// Err is why nothing was stored. What was there before is there still.
	Err error
}

// shrink is the share of records that may be gone since the last time.
const shrink = 0.05

// Load reads delegated files, plain or gzip, from paths and http(s) URLs, and
// stores each in dir in place of what was there of the same registry. One that
// fails leaves its predecessor and the others alone. The error is about dir
// alone, or that ctx ended. One Load at a time may run on a dir.
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
		r.Info, r.Same, r.Err = o.load(ctx, dir, s)
		if err := ctx.Err(); err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// load loads one file.
func (o Options) load(ctx context.Context, dir, name string) (info Info, same bool, err error) {
	stored, _ := List(dir) // what is damaged is about to be replaced, or not asked
	var before Info
	for _, i := range stored {
		if i.Source != name || !isURL(name) || o.Force {
			continue
		}
		if _, _, err := read(path(dir, i.Registry)); err == nil { // else "not modified" would be no help
			before = i
		}
	}
	s, err := o.open(ctx, name, before)
	if errors.Is(err, errSame) {
		return before, true, nil
	}
	if err != nil {
		return info, false, err
	}
	defer s.close()
	file, err := rir.Parse(s, o.Limits)
	if err != nil {
		return info, false, fmt.Errorf("%s: %w", name, err)
	}
	now := time.Now
	if o.Now != nil {
		now = o.Now
	}
	info = Info{
		Registry: nameOf(file), Source: name, Loaded: now().UTC().Truncate(time.Second),
		Version: file.Header.Version, Serial: file.Header.Serial, Day: file.Header.End,
		Records: file.Records, IPv4: file.IPv4, IPv6: file.IPv6, ASN: file.ASN, Free: file.Free,
		Entries: len(file.Entries), Faulty: file.Faulty, Faults: []string{}, ETag: s.etag, Modified: s.modified,
	}
	for _, f := range file.Faults {
		info.Faults = append(info.Faults, f.String())
	}
	if info.Registry == "" {
		return info, false, fmt.Errorf("%s: it does not say which registry made it", name)
	}
	for _, i := range stored {
		if i.Registry == info.Registry && !o.Force && float64(info.good()) < float64(i.good())*(1-shrink) {
			return info, false, fmt.Errorf("%s: %w: %d usable records, %d the last time (%s); take it nevertheless with --force",
				name, ErrShrunk, info.good(), i.good(), i.Source)
		}
	}
	if err := write(dir, info, file.Entries); err != nil {
		return info, false, fmt.Errorf("%s: %w", name, err)
	}
	return info, false, nil
}

// nameOf is the registry that made a file: by its version line, else by its
// entries.
func nameOf(f *rir.File) string {
	if f.Header.Registry != "" {
		return f.Header.Registry
	}
	if len(f.Entries) > 0 {
		return f.Entries[0].Registry
	}
	return ""
}
