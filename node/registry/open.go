package registry

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	rir "peerd/coords/registry"
)

// ErrNone says that no registry data has been loaded.
var ErrNone = errors.New("no registry data here; load some with: peerd registry load")

// List returns what is stored in dir, by the registries' names; an empty or
// missing dir has nothing. A file that cannot be used is left out and told by
// the error, which matches ErrStored then.
func List(dir string) ([]Info, error) {
	var infos []Info
	err := each(dir, func(name string) error {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := readInfo(f, name)
		if err == nil {
			infos = append(infos, info)
		}
		return err
	})
	return infos, err
}

// Open returns the table of everything stored in dir, with IANA's blocks as
// roots, and what it is made of. Without any file the error matches ErrNone, with
// a damaged one ErrStored: the table of the others is returned nevertheless, if
// there are any.
func Open(dir string) (*rir.Table, []Info, error) {
	var infos []Info
	var all []rir.Entry
	err := each(dir, func(name string) error {
		info, entries, err := read(name)
		if err == nil {
			infos = append(infos, info)
			all = append(all, entries...)
		}
		return err
	})
	if len(infos) == 0 {
		if err == nil {
			err = fmt.Errorf("%s: %w", dir, ErrNone)
		}
		return nil, nil, err
	}
	// Build lets one of two entries with the same prefix count, as Merge does.
	table, bad := rir.Build(rir.WithRoots(all))
	if bad != nil {
		return nil, nil, errors.Join(err, bad)
	}
	return table, infos, err
}

// each calls read for every stored file, by name, and joins the errors.
func each(dir string, read func(name string) error) error {
	names, err := filepath.Glob(filepath.Join(escape(dir), "*"+suffix))
	if err != nil {
		return err
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		errs = append(errs, read(name))
	}
	return errors.Join(errs...)
}

// escape takes the meaning from what Glob would read as a pattern.
func escape(dir string) string {
	var out []byte
	for i := range len(dir) {
		if c := dir[i]; c == '*' || c == '?' || c == '[' || c == '\\' {
			out = append(out, '\\')
		}
		out = append(out, dir[i])
	}
	return string(out)
}

// Block is a block of addresses, for people.
type Block struct {
	Prefix   string `json:"prefix"`
	Registry string `json:"registry"`
	Country  string `json:"country"`
	Holder   string `json:"holder"`
}

// Around returns the blocks that contain an address, the smallest first.
func Around(t *rir.Table, a netip.Addr) []Block {
	out := []Block{}
	for e := range t.Supernets(netip.PrefixFrom(a, a.BitLen())) {
		out = append(out, Block{e.Prefix.String(), e.Registry, e.Country, e.Holder})
	}
	return out
}
