// Package registry maps addresses to the organisations that hold them, by the files that
// the regional Internet registries publish daily. The strategies in package assign that
// walk the tree of prefixes use it.
//
//	file, err := registry.Parse(r, registry.DefaultLimits()) // one file
//	table, err := registry.Build(registry.WithRoots(file.Entries))
//	entry, ok := table.Lookup(addr)
//	for e := range table.Supernets(prefix) { … }             // up to the root
//
// A delegated-extended file is flat: it says which registry gave which block to which
// organisation, and nothing about how the holder divides it. Entries may nest, so that
// deeper trees can be built as well.
//
// A holder is "registry:opaque-id". The same opaque-id means the same holder only within
// one file: RIPE NCC changes them daily. Anything that is stored for longer than a
// [Table] exists must therefore be stored by prefix.
//
// The package is pure, as coords is. Besides the standard library it imports
// github.com/gaissmai/bart (longest-prefix match) and go4.org/netipx (address ranges as
// prefixes).
//
// Sources: NRO extended statistics exchange format, nro-extended-stats-readme5.txt; RIR
// statistics exchange format, versions 2 and 2.3.
package registry
