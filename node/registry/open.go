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

// ErrNone means that no registry data has been loaded.
var ErrNone = errors.New("no registry data here; load some with: peerd registry load")

// List returns the descriptions of the files in dir, by the names of the registries; an empty or
// missing dir has none. It omits files that cannot be used; the error then matches ErrStored.
func List(dir string) ([]Info, error) {
	var infos []Info
	err := eachFile(dir, func(name string) error {
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

// Open returns the table of all files in dir, with IANA's blocks as roots, and their
// descriptions. If there is no file, the error matches ErrNone. If files are damaged, the error
// matches ErrStored, and the table of the other files is returned, if there are any.
func Open(dir string) (*rir.Table, []Info, error) {
	var infos []Info
	var all []rir.Entry
	err := eachFile(dir, func(name string) error {
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
	// Build accepts one of two entries with the same prefix.
	table, bad := rir.Build(rir.WithRoots(all))
	if bad != nil {
		return nil, nil, errors.Join(err, bad)
	}
	return table, infos, err
}

// eachFile calls read for every stored file, by name, and joins the errors.
func eachFile(dir string, read func(name string) error) error {
	names, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*"+suffix))
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

// escapeGlob escapes the characters that are special in a pattern.
func escapeGlob(dir string) string {
	var out []byte
	for i := range len(dir) {
		if c := dir[i]; c == '*' || c == '?' || c == '[' || c == '\\' {
			out = append(out, '\\')
		}
		out = append(out, dir[i])
	}
	return string(out)
}

// Block is a block of addresses as it is printed.
type Block struct {
	Prefix   string `json:"prefix"`
	Registry string `json:"registry"`
	Country  string `json:"country"`
	Holder   string `json:"holder"`
}

// BlocksContaining returns the blocks that contain an address, the smallest first.
func BlocksContaining(t *rir.Table, a netip.Addr) []Block {
	out := []Block{}
	for e := range t.Supernets(netip.PrefixFrom(a, a.BitLen())) {
		out = append(out, Block{e.Prefix.String(), e.Registry, e.Country, e.Holder})
	}
	return out
}
