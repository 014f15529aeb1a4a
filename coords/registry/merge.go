package registry

import "net/netip"

// Result is what became of one of several files.
type Result struct {
	// Name is the file's: a path or a URL.
	Name string
	// File is what it says; not nil, and without entries that count if Err is
	// not nil.
	File *File
	// Err is why it is not used.
	Err error
}

// Merge puts the entries of several files together: a file that failed is left
// out and spoils none of the others. If two files name the same prefix, the
// first that knows its holder counts, and all further ones are conflicts.
func Merge(files []Result) (entries []Entry, conflicts int) {
	n := 0
	for _, f := range files {
		if f.Err == nil {
			n += len(f.File.Entries)
		}
	}
	entries = make([]Entry, 0, n)
	if len(files) == 1 && files[0].Err == nil {
		return append(entries, files[0].File.Entries...), 0
	}
	at := make(map[netip.Prefix]int32, n)
	for _, f := range files {
		if f.Err != nil {
			continue
		}
		for _, e := range f.File.Entries {
			i, seen := at[e.Prefix]
			switch {
			case !seen:
				at[e.Prefix] = int32(len(entries))
				entries = append(entries, e)
			case entries[i].Holder == "" && e.Holder != "":
				entries[i] = e
			case e.Holder != "":
				conflicts++
			}
		}
	}
	return entries, conflicts
}
