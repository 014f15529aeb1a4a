// Package data reads files of measurements for experiments. It does not trust the files:
// it bounds their size and checks their content, and errors name the line. gzip is
// recognised by its first bytes.
//
// Files: matrix.go round trips among nodes; times.go response times of servers; worlds.go
// crawlers, sites and the registry of their addresses; synth.go synthetic worlds; gzip.go
// compressed files.
package data
