package config

import _ "embed" // the texts

// template is the config.toml of a new home. Lines that start with "#" and a character other
// than a space are settings with their defaults; all other lines are comments. The comment
// above each setting is also its description in docs/configuration.md.
//
//go:embed template.toml
var template string

// ProfileTemplate is a profile with all keys. Below [scope], the values are the defaults. The
// comments are also the descriptions in docs/profile.md.
//
//go:embed profile.toml
var ProfileTemplate string
