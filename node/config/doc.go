// Package config says how one peer is set up and which network it belongs to:
// the home directory with the peer's identity, config.toml, and the profile
// that all peers of a network share. It starts nothing and opens no socket.
//
// It may import the standard library, the TOML decoder, libp2p's names for
// keys, peers and addresses, and of the other rooms crawl/trap, which knows the
// names of its limits.
//
// Files:
//
//	home.go       Home: the paths below one directory; Init, Open, Key
//	config.go     Config: config.toml, its defaults and limits
//	crawl.go      Crawl, Overlay: the two sections of config.toml
//	template.go   the commented config.toml that Init writes
//	profile.go    Profile: the rules that all peers of a network share
//	digest.go     NetworkID: the rules as one short name
//	decode.go     strict TOML, with file, line and key in every error
//	where.go      where in a file a key stands
//	rules.go      the sections of a profile and of config.toml that newer rules have
//	values.go     Duration and the checks that several values share
//	version.go    Version, UserAgent
package config
