// Package registry keeps what the regional Internet registries publish
// (coords/registry) in the home of a peer: it reads delegated files from disk
// or the web, stores each in compact form, and gives the table of all of them.
//
//	results, err := registry.Load(ctx, home.RegistryDir(), opts, "https://ftp.ripe.net/pub/stats/…")
//	table, infos, err := registry.Open(home.RegistryDir())
//
// There is one file for each registry, replaced whole or not at all, so that a
// file which fails spoils neither its predecessor nor the others.
//
// Files: load.go Load; fetch.go files and URLs; stored.go the form on disk;
// open.go List and Open.
package registry
