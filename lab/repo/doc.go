// Package repo checks the repository itself: that its documents link to files
// that exist, that the commands they show are accepted, that retired words are
// not used, and that packages import only what their layer may import.
package repo
