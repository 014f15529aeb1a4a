// Package overlaytest provides fixtures for tests of the packages in overlay and of
// node: deterministic peer identities, hosts on loopback that know each other, small
// stores, waiting for conditions, and logging.
//
// Only tests import it. Of this module it imports nothing but store, so that the tests
// of every package in overlay can use it.
package overlaytest
