//go:build integration

package malet

import "testing"

// All experiments run and have results.
func TestMaletAll(t *testing.T) {
	t.Parallel()
	var names []string
	for _, e := range Experiments() {
		names = append(names, e.Name)
	}
	testMalet(t, names...)
}
