// Package overlaytest is what the tests of this room, and of node, share: peers with
// keys that are the same in every run, hosts on loopback that know each other, a
// small store, waiting, and a log. What only one package needs stays in its own tests.
//
// It is for tests alone: no other code imports it. Of this project it may import
// store and nothing else, so that the tests of every package here can use it.
package overlaytest
