// Package scope decides which URLs a network crawls. It owns the rules of a profile and
// their compiled form. It imports store and canon and performs no I/O.
//
// All peers of a network compile the same rules with the same seeds, so they agree on every
// URL.
//
// Files:
//
//	rules.go   Rules: modes, patterns, limits, and their validation
//	scope.go   Compile, and Scope, which decides
package scope
