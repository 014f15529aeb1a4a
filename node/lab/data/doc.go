// Package data reads files of measurements for the experiments of package lab.
// Every file is of foreign origin: bounded before it is read, checked before it
// is used, and an error names the line. gzip is known by its first bytes.
//
// Files: matrix.go round trips among nodes; times.go response times of servers;
// worlds.go crawlers, sites and the registry over them; gzip.go what all may be
// packed with.
package data
