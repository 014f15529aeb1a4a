// Package plugin spreads plug-ins among the peers of a network. A plug-in is a WebAssembly module
// with a manifest that its publisher has signed: name, version, and the digest of the module. A
// peer keeps, passes on and runs only plug-ins of the publishers that its operator trusts.
//
// A Folder holds packages, which are manifest and module in one file; operators put packages there,
// too. A Service asks the other peers in turn for their manifests of the trusted publishers, and
// fetches the modules of newer versions. Everything is checked before it is stored, and again
// before it is returned: signature, publisher, size, digest.
//
// Nothing is announced: a peer without publishers takes part in nothing, and one with them asks
// AtOnce others at a time.
//
// The package does not run modules. docs/protocol/plugin.md describes the messages.
package plugin
