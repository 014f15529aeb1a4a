//go:build integration

package node

import (
	"strings"
	"testing"
)

// A file that is larger than any page is got in full.
func TestGetLargeFile(t *testing.T) {
	if testing.Short() {
		t.Skip("needs some hundred megabytes of memory")
	}
	const size = 64<<20 + 1
	home := archiveOf(t, map[string][2]string{
		"http://a.example/file": {"200 OK", strings.Repeat("x", size)},
	})
	a, err := Get(t.Context(), home, "http://a.example/file")
	if err != nil || len(a.Body) != size {
		t.Errorf("Get() = %d bytes, %v, want %d", len(a.Body), err, size)
	}
}
