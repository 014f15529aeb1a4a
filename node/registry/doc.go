// Package registry keeps the data of the Internet registries (coords/registry) in the home of a
// peer. It reads delegated files from disk or the web, stores each of them in compact form, and
// returns the table of all of them.
//
//	results, err := registry.Load(ctx, home.RegistryDir(), opts, "https://ftp.ripe.net/pub/stats/…")
//	table, infos, err := registry.Open(home.RegistryDir())
//
// There is one stored file for each registry, which is replaced atomically, so that a failed
// load affects neither its predecessor nor the other files.
//
// Files: load.go Load; fetch.go files and URLs; stored.go the stored form; open.go List and Open.
package registry
