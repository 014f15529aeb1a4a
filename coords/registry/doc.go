// Package registry knows which organisation holds which addresses, by the
// files that the regional Internet registries publish every day. Strategies
// that walk up the tree of prefixes (assign) rest on it.
//
//	file, err := registry.Parse(r, registry.DefaultLimits()) // one file
//	table, err := registry.Build(registry.WithRoots(file.Entries))
//	entry, ok := table.Lookup(addr)
//	for e := range table.Supernets(prefix) { … }             // up to the root
//
// A delegated-extended file is flat: it says which registry gave which block
// to whom, and nothing of what the holder made of it. Deeper trees can be built
// as well; entries may nest as they like.
//
// A holder is "registry:opaque-id". The same opaque-id means the same holder
// within one file only: RIPE NCC makes new ones every day. So whatever is kept
// longer than a [Table] has to be kept by prefix.
//
// Like the rest of coords the package is pure. Besides the standard library it
// imports github.com/gaissmai/bart (longest-prefix match) and
// go4.org/netipx (address ranges as prefixes).
//
// # Source
//
// NRO extended statistics exchange format, nro-extended-stats-readme5.txt;
// RIR statistics exchange format, versions 2 and 2.3.
//
// # Files
//
//	table.go   Entry, Table, Build: who holds what, and what lies in what
//	roots.go   WithRoots: IANA's blocks above the records
//	parse.go   Parse: a delegated-extended file
//	merge.go   Merge: the files of several registries
//	binary.go  a table as bytes, and back
package registry
