// Package registry keeps the data of the Internet registries (coords/registry) in the home of a
// peer: it reads delegated files from disk or the web, and stores each of them as it is.
//
//	file, err := registry.Load(ctx, home.RegistryDir(), userAgent, "https://ftp.ripe.net/pub/stats/…")
//	table, infos, err := registry.Open(home.RegistryDir())
//
// There is one stored file for each registry, which is replaced atomically, so that a failed
// load affects neither its predecessor nor the other files.
package registry
