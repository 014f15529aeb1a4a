// Package config reads the settings of a peer and the rules of its network: the home directory
// with the peer's identity, config.toml, and the profile that all peers of a network share. It
// starts nothing and opens no socket.
//
// Files:
//
//	home.go       Home: the paths below one directory; Init, Open, Key
//	config.go     Config: config.toml, its defaults and limits
//	crawl.go      Crawl, Overlay: two sections of config.toml
//	edit.go       Settings, and changes of config.toml that keep the rest of it
//	network.go    the profile and the membership in a home
//	template.go   the commented config.toml that Init writes, and a commented profile
//	profile.go    Profile: the rules that all peers of a network share
//	sections.go   further sections of profiles and of config.toml
//	digest.go     NetworkID: a short name for the rules
//	decode.go     strict TOML, with file, line and key in every error
//	position.go   the position of a key in a file
//	values.go     Duration, and the checks that several values share
//	version.go    Version, Build, UserAgent
//	files_*.go    OpenFiles: the limit of the process
//
// The tables of docs/configuration.md and docs/profile.md are generated from this package:
//
//go:generate go test . -run TestReference -update
package config
